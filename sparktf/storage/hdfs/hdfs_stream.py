"""Reading of an HDFS file by hdfs-native, and if that fails, from the same offset on by WebHDFS."""

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
    """An open file; `read_buffer` reads into Arrow's memory, without another copy."""

    def __init__(self, nbytes: int, native: NativeFile | None, slowly: ReadSlowly, give_up: Callable[[], None]) -> None:
        """Reads by `native`, and by `slowly` after that has failed, when `give_up` is called."""
        super().__init__()
        self.nbytes = nbytes
        self._native = native
        self._slowly = slowly
        self._give_up = give_up
        self._position = 0

    @property
    def is_pinned(self) -> bool:
        """Whether all data are of the file that was opened: WebHDFS resolves the path again at each read."""
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
        """Like `read`, into an Arrow buffer."""
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
            # An abandoned read may still write into the rest of this buffer: so read the rest into another one.
            rest = memoryview(bytearray(len(into) - done)) if self._native is not None else into
            if self._native is not None:
                self._native = None
                self._give_up()
            self._slowly(self._position + done, rest)
            if rest is not into:
                into[done:] = rest
        self._position += len(into)
