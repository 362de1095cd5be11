"""Uploads in parts that nobody has finished, in a bucket of S3: no listing of objects shows them, and they cost space.

obstore aborts an upload that fails, and knows none of other processes. So `botocore` lists and aborts those of
processes that were killed. Azure drops the parts of such an upload after a week; Google Cloud Storage keeps them as S3
does, but its tokens are not botocore's, so there only a rule of the bucket's life cycle removes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from sparktf.storage.base import OpenUpload
from sparktf.storage.objects.clients import Bucket, s3_place
from sparktf.told import first_line_of, log_of

_TRIES = 3
_GONE = "NoSuchUpload"

_log = log_of(__name__)
_told: set[str] = set()


def unfinished(bucket: Bucket, prefix: str) -> tuple[OpenUpload, ...]:
    """Returns the uploads of keys with a prefix; none where the store does not list them, which is said once."""
    found: list[OpenUpload] = []
    with _telling(bucket):
        pages = _client(bucket).get_paginator("list_multipart_uploads")
        for page in pages.paginate(Bucket=bucket.name, Prefix=prefix):
            found += [_upload(bucket, entry) for entry in page.get("Uploads", ()) if entry["Key"].startswith(prefix)]
    return tuple(found)


def abort_all(bucket: Bucket, uploads: Sequence[OpenUpload]) -> None:
    """Drops what has arrived of some; one that the store refuses stays, which is said once."""
    with _telling(bucket):
        client = _client(bucket)
        for upload in uploads:
            _abort(client, bucket, upload)


def _upload(bucket: Bucket, entry: Mapping[str, Any]) -> OpenUpload:
    began_ms = int(entry["Initiated"].timestamp() * 1000)
    return OpenUpload(f"{bucket.root}/{entry['Key']}", entry["UploadId"], began_ms)


def _abort(client: Any, bucket: Bucket, upload: OpenUpload) -> None:
    """Aborts an upload, unless it has ended or another process was quicker."""
    key = upload.path.removeprefix(f"{bucket.root}/")
    try:
        client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=upload.id)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != _GONE:
            raise


def _client(bucket: Bucket) -> Any:
    """Returns a client, which where no keys are configured looks where AWS's own do."""
    place = s3_place(bucket.name, bucket.properties)
    config = Config(
        connect_timeout=bucket.timeouts.connect_s,
        read_timeout=bucket.timeouts.io_s,
        retries={"max_attempts": _TRIES, "mode": "standard"},
        s3={"addressing_style": "path" if place.by_path else "virtual"} if place.endpoint else None,
        signature_version=UNSIGNED if place.anonymous else None,
        user_agent_extra="sparktf",
    )
    return Session().create_client(
        "s3",
        region_name=place.region,
        endpoint_url=place.endpoint or None,
        aws_access_key_id=place.access_key or None,
        aws_secret_access_key=place.secret_key or None,
        aws_session_token=place.token or None,
        verify=os.environ.get("SSL_CERT_FILE"),  # of who vouches for the store's certificate, as obstore has it
        config=config,
    )


@contextmanager
def _telling(bucket: Bucket) -> Iterator[None]:
    """Says the first failure of each bucket in the block, and raises none."""
    try:
        yield
    except (BotoCoreError, ClientError, ValueError) as error:
        if bucket.root not in _told:
            _told.add(bucket.root)
            _log.warning(
                "%s: uploads that killed processes have left unfinished there are not removed, and cost space: %s: "
                "give the bucket a rule that aborts incomplete multipart uploads, or yourself the rights "
                "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload",
                bucket.root,
                first_line_of(str(error), type(error).__name__),
            )
