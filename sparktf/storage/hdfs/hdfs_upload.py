"""The content of uploads to HDFS, and retries."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import tenacity

from sparktf.errors import StorageUnavailableError

_SEND_NBYTES = 1 << 20


class Content(Protocol):
    """Content to send: of known length, hashed while it is sent."""

    nbytes_sent: int

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...

    @property
    def sha256(self) -> str: ...


class StoredContent:
    """A file of known size, sent from its beginning."""

    def __init__(self, stream: BinaryIO, nbytes: int) -> None:
        self._stream = stream
        self._nbytes = nbytes
        self._digest = hashlib.sha256()
        self.nbytes_sent = 0

    def __len__(self) -> int:
        return self._nbytes

    def __iter__(self) -> Iterator[bytes]:
        self._stream.seek(0)
        while chunk := self._stream.read(min(_SEND_NBYTES, self._nbytes - self.nbytes_sent)):
            self._digest.update(chunk)
            self.nbytes_sent += len(chunk)
            yield chunk

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class FileContent(StoredContent):
    """A local file to send."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream, os.fstat(stream.fileno()).st_size)


class BytesContent(StoredContent):
    """Bytes to send."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), len(content))


class Trouble:
    """Retries until a deadline after the first failure, and mentions that in the final error."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._since_s: float | None = None

    def attempts(self) -> tenacity.Retrying:
        return tenacity.Retrying(
            stop=self._is_enough,
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=2.0),
            retry=tenacity.retry_if_exception_type(StorageUnavailableError),
            retry_error_callback=self._give_up,
        )

    def over(self) -> None:
        """Notes a success: the next failure counts as the first one."""
        self._since_s = None

    def _give_up(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        raise StorageUnavailableError(f"{error} (after {self._deadline_s:g} s of trying)") from error

    def _is_enough(self, state: tenacity.RetryCallState) -> bool:
        now_s = state.outcome_timestamp or 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s + state.upcoming_sleep - self._since_s >= self._deadline_s
