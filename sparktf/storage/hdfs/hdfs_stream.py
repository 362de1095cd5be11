"""A file on HDFS that is read: fast by hdfs-native, and where that fails on by WebHDFS from the same offset."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sparktf.storage.hdfs.hdfs_native import NativeFile

ReadSlowly = Callable[[int, memoryview], None]
"""Fills a buffer from an offset on; raises `StorageError`."""


class HdfsStream(io.RawIOBase):
    """A file that is read; `read_buffer` puts what it reads into Arrow's memory, without another copy."""

    def __init__(self, nbytes: int, native: NativeFile | None, slowly: ReadSlowly, give_up: Callable[[], None]) -> None:
        """Opens a file of so many bytes.

        Args:
            slowly: Reads where hdfs-native does not.
            give_up: Called when hdfs-native has failed.
        """
        super().__init__()
        self.nbytes = nbytes
        self._native = native
        self._slowly = slowly
        self._give_up = give_up
        self._position = 0

    @property
    def is_pinned(self) -> bool:
        """Whether all that was read is of the file that was opened: WebHDFS looks its path up again at each read."""
        return self._native is not None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.nbytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns exactly `size` bytes, fewer only at the file's end."""
        content: bytes = self.read_buffer(-1 if size is None else size).to_pybytes()
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        view = view[: max(0, min(len(view), self.nbytes - self._position))]
        self._fill(view)
        return len(view)

    def read_buffer(self, size: int = -1, /) -> pa.Buffer:
        """Like `read`, into a buffer of Arrow's, which takes it as it is."""
        left = max(0, self.nbytes - self._position)
        buffer = pa.allocate_buffer(left if size < 0 else min(size, left))
        self._fill(memoryview(buffer).cast("B"))
        return buffer

    def _fill(self, into: memoryview) -> None:
        if self.closed:
            raise ValueError("the file is closed")
        if not len(into):
            return
        done = self._native.read_into(self._position, into) if self._native is not None else 0
        if done < len(into):
            # A read that was given up may yet write where this buffer goes on: so the rest comes into one of its own.
            rest = memoryview(bytearray(len(into) - done)) if self._native is not None else into
            if self._native is not None:
                self._native = None
                self._give_up()
            self._slowly(self._position + done, rest)
            if rest is not into:
                into[done:] = rest
        self._position += len(into)
