"""Fast reads by hdfs-native, with a watchdog: it has no timeout, and waits for ever for a frozen DataNode."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import hdfs_native

from sparktf.errors import StoragePermissionError
from sparktf.storage.credentials import TOKEN_FILE, Credentials
from sparktf.storage.hdfs.hdfs_errors import kind_of_native

# Named by none, it refuses files of encryption zones, which then the DataNodes decrypt (WebHDFS). It would take a key
# server from HADOOP_CONF_DIR, and does not start with one that is no kms://.
_NO_KEYS = {"hadoop.security.key.provider.path": ""}
_ENCRYPTED = re.compile(r"encryption zone|File encryption")

_T = TypeVar("_T")


class StalledError(Exception):
    """A call made no progress for too long."""


class WatchedCall(Generic[_T]):
    """A call on a thread that is never joined, and that reports its progress.

    Attributes:
        progress: Grows while the call progresses.
        abandoned: The caller no longer waits.
    """

    def __init__(self, function: Callable[[WatchedCall[_T]], _T]) -> None:
        self.progress = 0
        self.abandoned = False
        self._function = function
        self._done = threading.Event()
        self._result: _T
        self._error: BaseException | None = None

    def run(self) -> None:
        """Runs the call, on its thread."""
        try:
            self._result = self._function(self)
        except BaseException as error:  # noqa: BLE001 - the end of a thread: raised where it is waited for
            self._error = error
        finally:
            self._done.set()

    def wait(self, stall_s: float) -> _T:
        """Returns the result, or raises the call's error.

        Raises:
            StalledError: there was no progress for `stall_s`; the call is abandoned.
        """
        seen = 0
        while not self._done.wait(stall_s):
            if self.progress == seen:
                self.abandoned = True
                raise StalledError(f"the read made no progress for {stall_s:g} s")
            seen = self.progress
        if self._error is not None:
            raise self._error
        return self._result


class CallThreads:
    """Runs each call on a daemon thread, reusing idle ones.

    `ThreadPoolExecutor` joins its threads when the process exits, and would hang on a read that never returns.
    """

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[WatchedCall[Any]]] = []

    def start(self, function: Callable[[WatchedCall[_T]], _T]) -> WatchedCall[_T]:
        """Starts a call; `function` gets the call itself, to report its progress."""
        call = WatchedCall(function)
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="hdfs-read", daemon=True).start()
        inbox.put(call)
        return call

    def _work(self, inbox: queue.SimpleQueue[WatchedCall[Any]]) -> None:
        while True:
            inbox.get().run()
            self._idle.append(inbox)


class NativeFile:
    """An open file; `read_into` may be called from any thread."""

    def __init__(self, reader: hdfs_native.FileReader, threads: CallThreads, stall_s: float) -> None:
        self._reader = reader
        self._threads = threads
        self._stall_s = stall_s
        self.nbytes = len(reader)

    def read_into(self, offset: int, into: memoryview) -> int:
        """Reads up to `len(into)` bytes; returns the number read before a failure, or all.

        An abandoned read may still write into `into`, behind the bytes that it returned.
        """
        call = self._threads.start(lambda call: self._copy(call, offset, into))
        try:
            return call.wait(self._stall_s)
        except (StalledError, RuntimeError, OSError, ValueError):
            return call.progress

    def _copy(self, call: WatchedCall[int], offset: int, into: memoryview) -> int:
        for chunk in self._reader.read_range_stream(offset, len(into)):
            if call.abandoned:
                break
            done = call.progress
            into[done : done + len(chunk)] = chunk
            call.progress = done + len(chunk)
        return call.progress


class NativeClient:
    """Opens files; after a failure of the cluster it pauses for a while, and begins with a new client."""

    def __init__(
        self, url: str, properties: dict[str, str], credentials: Credentials, stall_s: float, rest_s: float = 30.0
    ) -> None:
        """Connects to nothing yet; `url` is "hdfs://host:port" or "hdfs://nameservice"."""
        self._url = url
        self._properties = {**properties, **_NO_KEYS, "fs.defaultFS": url}
        self._credentials = credentials
        self._edition = ""
        self._stall_s = stall_s
        self._rest_s = rest_s
        self._threads = CallThreads()
        self._lock = threading.Lock()
        self._client: hdfs_native.Client | None = None
        self._rests_until_s = 0.0

    def open(self, path: str) -> NativeFile | None:
        """Opens a file; None if it is encrypted, during a pause, or after a failure whose reason WebHDFS is to tell.

        Raises:
            FileNotFoundError: there is no file.
        """
        with self._lock:
            if time.monotonic() < self._rests_until_s:
                return None
        try:
            reader = self._threads.start(lambda call: self._connected().read(path)).wait(self._stall_s)
        except FileNotFoundError:
            raise
        except (StalledError, RuntimeError, OSError, ValueError) as error:
            if kind_of_native(error) is not StoragePermissionError and not _ENCRYPTED.search(str(error)):
                self.rest()
            return None
        return NativeFile(reader, self._threads, self._stall_s)

    def rest(self) -> None:
        """Drops the client, with any calls that hang in it, and pauses."""
        with self._lock:
            self._client = None
            self._rests_until_s = time.monotonic() + self._rest_s

    def _connected(self) -> hdfs_native.Client:
        with self._lock:
            edition = self._credentials.edition()
            if self._client is None or edition != self._edition:
                # It reads tokens when it is made, from the file that this variable of Hadoop's names.
                if tokens := self._credentials.token_file():
                    os.environ[TOKEN_FILE] = tokens
                self._edition = edition
                self._client = hdfs_native.Client(self._url, self._properties)
            return self._client
