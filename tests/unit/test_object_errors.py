"""What a store that does not serve is said to be: one line each, in bounded time."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sparktf.errors import StorageError, StoragePermissionError, StorageUnavailableError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage, Timeouts
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_errors import kind_of, store_reason

SECRET = "hunter2+hunter2="
DEADLINE_S = 1.0


class Answers:
    """A store that answers each request alike, or one after the other, and counts them."""

    def __init__(self, statuses: list[int], content: bytes = b"") -> None:
        self.requests = 0
        self.release = threading.Event()
        # A busy machine is slow to answer, and whoever does not wait asks again.
        self.io_s = 10.0 if all(statuses) else 0.5
        self._statuses = statuses
        self._content = content

    def next(self) -> tuple[int, bytes]:
        status = self._statuses[min(self.requests, len(self._statuses) - 1)]
        self.requests += 1
        if not status:
            self.release.wait(30)
        return status or 503, self._content if status in (200, 206) else b""


@contextmanager
def store(answers: Answers) -> Iterator[Storage]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            status, content = answers.next()
            self.send_response(status)
            for name, value in (("Content-Length", len(content)), ("ETag", '"e"')):
                self.send_header(name, str(value))
            self.send_header("Last-Modified", "Fri, 20 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = answer

        def log_message(self, *args: object) -> None:
            del args

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            del args  # whoever asked has given up

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield storage_at(f"http://127.0.0.1:{server.server_port}", answers.io_s)
        finally:
            answers.release.set()
            server.shutdown()
            thread.join()


def storage_at(endpoint: str, io_s: float = 0.5) -> Storage:
    properties = {"fs.s3a.endpoint": endpoint, "fs.s3a.access.key": "k", "fs.s3a.secret.key": SECRET}
    return FileSystems(HadoopConf(properties=properties), timeouts=Timeouts(1, io_s, DEADLINE_S)).open("s3a://b/x")


@pytest.mark.parametrize(
    ("status", "kind", "said", "retried"),
    [
        (403, StoragePermissionError, "the store answered 403 Forbidden", False),
        (401, StoragePermissionError, "the store answered 401 Unauthorized", False),
        (400, StorageError, "the store answered 400 Bad Request", False),
        (302, StorageError, "the store is in another region: set fs.s3a.endpoint.region", False),
        (429, StorageUnavailableError, "the store answered 429 Too Many Requests", True),
        (503, StorageUnavailableError, "the store answered 503 Service Unavailable", True),
        (0, StorageUnavailableError, "the store cannot be reached at http://127.0.0.1", True),
    ],
)
@pytest.mark.parametrize("doing", ["read_bytes", "list"])
def test_a_store_that_refuses_is_told_of_in_a_line(
    status: int, kind: type[StorageError], said: str, retried: bool, doing: str
) -> None:
    answers = Answers([status])
    with store(answers) as storage:
        began_s = time.monotonic()
        with pytest.raises(StorageError) as refused:
            getattr(storage, doing)("s3a://b/x")
        took_s = time.monotonic() - began_s
    text = str(refused.value)
    assert type(refused.value) is kind
    assert re.match(rf"cannot (read|list) s3a://b/x: {re.escape(said)}", text)
    assert "\n" not in text
    assert SECRET not in f"{refused.value!r}{refused.value.__cause__}"
    assert took_s < 30  # a busy machine is slow, and a client without a limit takes minutes
    assert (answers.requests > 1) is retried
    assert ("times)" in text) is retried


def test_a_store_that_comes_back_within_the_deadline_is_read() -> None:
    answers = Answers([503, 429, 200], b"content")
    with store(answers) as storage:
        assert storage.read_bytes("s3a://b/x") == b"content"
    assert answers.requests == 3


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://nowhere.invalid"])
def test_an_endpoint_at_which_nobody_is_is_named(endpoint: str) -> None:
    with pytest.raises(
        StorageUnavailableError, match="cannot access s3a://b/x: the store cannot be reached at http://"
    ):
        storage_at(endpoint).stat("s3a://b/x")


def test_who_has_no_keys_and_is_on_no_clouds_machine_is_told_so() -> None:
    said = (
        "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 4ms - HTTP error: timed out"
    )
    assert kind_of(Exception(said)) is StoragePermissionError
    assert store_reason(Exception(said)).startswith("no keys are configured for it")


def test_what_azure_says_in_several_lines_is_one() -> None:
    said = "Error performing GET REDACTED: <Code>NoKey</Code>\n<Message>No such key.\nRequestId:1\nTime:2</Message>"
    assert store_reason(Exception(said)) == "No such key. (NoKey)"


def test_the_rest_is_obstores_first_line_without_secrets() -> None:
    said = "Generic GCS error: Error performing GET http://h/x in 1ms - it is odd: ?sig=hunter2hunter2\n\nDebug source"
    assert store_reason(Exception(said)) == "it is odd: ?sig=*********(redacted)"
