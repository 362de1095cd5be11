"""Makes obstore's client of a container from the keys by which Hadoop's own connectors are configured."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from sparktf.storage.base import Timeouts
from sparktf.storage.objects.container import StoreContainer

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, ObjectStore, RetryConfig, S3Config

_REGION = "us-east-1"  # as the S3 client of Hadoop has it for an endpoint that says none
_REQUEST = timedelta(minutes=10)  # for one request with all its bytes; the next byte is waited for `io_s`
_TRUE = "true"
_AZURE = "dfs.core.windows.net"


def client_of(container: StoreContainer, properties: Mapping[str, str], timeouts: Timeouts) -> ObjectStore:
    """Returns the client of a container; connects to nothing yet.

    Args:
        properties: Hadoop's.
    """
    options: ClientConfig = {
        "allow_http": True,  # what is sent without TLS says `fs.s3a.connection.ssl.enabled`, or the endpoint
        "connect_timeout": timedelta(seconds=timeouts.connect_s),
        "read_timeout": timedelta(seconds=timeouts.io_s),
        "timeout": _REQUEST,
        "user_agent": "sparktf",
    }
    retries: RetryConfig = {
        "max_retries": 100,  # the deadline ends them
        "retry_timeout": timedelta(seconds=timeouts.deadline_s),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=max(0.1, min(5.0, timeouts.deadline_s / 4))),
            "base": 2,
        },
    }
    name = container.name
    if container.kind == "Azure":
        azure = azure_config(container, properties)
        return AzureStore(name, config=azure, client_options=options, retry_config=retries)
    if container.kind == "GCS":
        return GCSStore(name, config=gcs_config(properties), client_options=options, retry_config=retries)
    return S3Store(name, config=s3_config(name, properties), client_options=options, retry_config=retries)


class Bucket(NamedTuple):
    """A bucket, and how it is reached."""

    root: str  # As paths in it begin: "s3a://bucket"
    name: str
    properties: Mapping[str, str]  # Hadoop's, with the present secrets
    timeouts: Timeouts


class S3Place(NamedTuple):
    """Where a bucket is, and by which keys, as `fs.s3a.<key>` or `fs.s3a.bucket.<bucket>.<key>` say."""

    region: str
    endpoint: str  # URL without the bucket; "" for Amazon's own
    by_path: bool  # Whether the bucket is in the path of a request, not in the host's name
    access_key: str  # "" for none: then each client looks where AWS's own do
    secret_key: str
    token: str  # Of a session; "" for none
    anonymous: bool


def s3_place(bucket: str, properties: Mapping[str, str]) -> S3Place:
    """Returns where a bucket is, by `fs.s3a.<key>`, or where it is there by `fs.s3a.bucket.<bucket>.<key>`."""

    def of(key: str, default: str = "") -> str:
        return properties.get(f"fs.s3a.bucket.{bucket}.{key}") or properties.get(f"fs.s3a.{key}") or default

    endpoint, by_path = of("endpoint"), False
    if endpoint:
        scheme = "https" if of("connection.ssl.enabled", _TRUE).lower() == _TRUE else "http"
        endpoint = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        by_path = of("path.style.access").lower() == _TRUE or _is_address(urlsplit(endpoint).hostname or "")
    access_key = of("access.key")
    # A bucket's own key has nothing to do with the token of the others' one.
    prefix = f"fs.s3a.bucket.{bucket}." if properties.get(f"fs.s3a.bucket.{bucket}.access.key") else "fs.s3a."
    return S3Place(
        region=of("endpoint.region", _REGION),
        endpoint=endpoint,
        by_path=by_path,
        access_key=access_key,
        secret_key=of("secret.key") if access_key else "",
        token=properties.get(f"{prefix}session.token", "") if access_key else "",
        anonymous=not access_key and of("aws.credentials.provider").endswith("AnonymousAWSCredentialsProvider"),
    )


def s3_config(bucket: str, properties: Mapping[str, str]) -> S3Config:
    """Returns the configuration of a bucket: see `s3_place`.

    Where no keys are there, obstore looks where AWS's own clients do: environment, web identity, container, instance.
    """
    place = s3_place(bucket, properties)
    config: S3Config = {"region": place.region}
    if place.endpoint:
        parts = urlsplit(place.endpoint)
        config["virtual_hosted_style_request"] = not place.by_path
        config["endpoint"] = place.endpoint if place.by_path else f"{parts.scheme}://{bucket}.{parts.netloc}"
    if place.access_key:
        config["access_key_id"] = place.access_key
        config["secret_access_key"] = place.secret_key
        if place.token:
            config["session_token"] = place.token
    elif place.anonymous:
        config["skip_signature"] = True
    return config


def azure_config(container: StoreContainer, properties: Mapping[str, str]) -> AzureConfig:
    """Returns the configuration of a container by `fs.azure.<key>.<account's host>`, or by `fs.azure.<key>`."""

    def of(key: str) -> str:
        return properties.get(f"fs.azure.{key}.{container.account}") or properties.get(f"fs.azure.{key}") or ""

    account, _, suffix = container.account.partition(".")
    config: AzureConfig = {"account_name": account}
    is_plain = container.scheme == "abfs" and of("always.use.https").lower() == "false"
    scheme = "http" if is_plain else "https"
    if ":" in (address := of("abfs.endpoint")):  # as Hadoop has it: the account is in paths then
        config["endpoint"] = f"{scheme}://{address}/{account}"
    elif suffix != _AZURE:  # another cloud's, whose blobs are beside its files
        config["endpoint"] = f"{scheme}://{account}.{suffix.replace('dfs.', 'blob.', 1)}"
    if account_key := of("account.key"):
        config["account_key"] = account_key
    if sas := of("sas.fixed.token"):
        config["sas_key"] = sas
    if client := of("account.oauth2.client.id"):
        config["client_id"] = client
    if secret := of("account.oauth2.client.secret"):
        config["client_secret"] = secret
        # ".../<tenant>/oauth2/token"
        config["tenant_id"] = urlsplit(of("account.oauth2.client.endpoint")).path.strip("/").partition("/")[0]
    return config


def gcs_config(properties: Mapping[str, str]) -> GCSConfig:
    """Returns the configuration by `fs.gs.auth.service.account.json.keyfile`; else obstore looks where Google's do."""
    keyfile = properties.get("fs.gs.auth.service.account.json.keyfile") or properties.get(
        "google.cloud.auth.service.account.json.keyfile"
    )
    return {"service_account": keyfile} if keyfile else {}


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return host == "localhost"
