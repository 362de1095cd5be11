"""What is written to HDFS, and how long to keep trying."""

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
    """What is sent: known in length, hashed on the way."""

    nbytes_sent: int

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...

    @property
    def sha256(self) -> str: ...


class FileContent:
    """A local file that is sent from its beginning."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._nbytes = os.fstat(stream.fileno()).st_size if hasattr(stream, "fileno") else 0
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


class StoredContent(FileContent):
    """A stored file that is sent on from its beginning."""

    def __init__(self, stream: BinaryIO, nbytes: int) -> None:
        self._stream = stream
        self._nbytes = nbytes
        self._digest = hashlib.sha256()
        self.nbytes_sent = 0


class BytesContent(FileContent):
    """Bytes that are sent."""

    def __init__(self, content: bytes) -> None:
        self._stream = io.BytesIO(content)
        self._nbytes = len(content)
        self._digest = hashlib.sha256()
        self.nbytes_sent = 0


class Trouble:
    """Tries again while trouble has lasted less than a deadline since the first failure; says so in the end."""

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
        """It goes on: the next failure is the first again."""
        self._since_s = None

    def _give_up(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        raise StorageUnavailableError(f"{error} (after {self._deadline_s:g} s of trying)") from error

    def _is_enough(self, state: tenacity.RetryCallState) -> bool:
        now_s = state.outcome_timestamp or 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s + state.upcoming_sleep - self._since_s >= self._deadline_s
