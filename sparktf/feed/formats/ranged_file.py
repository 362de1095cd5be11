"""A file in an object store as Arrow reads it: what it will ask for is fetched before, in few requests at a time."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from sparktf.storage.base import RangedStream

_GAP_NBYTES = 1 << 20
"""Bytes between two ranges that cost less than another request."""

_RANGE_NBYTES = 8 << 20
"""Ranges are put together up to about this size: larger ones come sooner in parts, over several connections."""


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the requests for some ranges (start, stop): those close together are one; sorted, without overlaps."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found:
            first, last = found[-1]
            if start < last or (start - last <= _GAP_NBYTES and stop - first <= _RANGE_NBYTES):
                found[-1] = (first, max(last, stop))
                continue
        found.append((start, stop))
    return found


class RangedFile(io.RawIOBase):
    """A seekable file that holds the ranges fetched last, and reads others when they are asked for."""

    def __init__(self, stream: RangedStream) -> None:
        """Reads nothing yet."""
        super().__init__()
        self._stream = stream
        self._position = 0
        self._held: list[tuple[int, int, pa.Buffer]] = []

    def fetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Holds some ranges (start, stop) in place of those before.

        Raises:
            StorageError: the file was replaced since it was opened, or the storage failed.
        """
        self._held = []  # frees their memory first
        nbytes = self._stream.nbytes
        wanted = merged_ranges((start, min(stop, nbytes)) for start, stop in ranges if start < min(stop, nbytes))
        chunks = self._stream.read_ranges(wanted)
        self._held = [(*one, pa.py_buffer(chunk)) for one, chunk in zip(wanted, chunks, strict=True)]

    def drop(self) -> None:
        """Holds nothing any more."""
        self._held = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._stream.nbytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        content: bytes = self.read_buffer(-1 if size is None else size).to_pybytes()
        return content

    def readinto(self, into: Any, /) -> int:
        content = self.read_buffer(len(memoryview(into).cast("B")))
        memoryview(into).cast("B")[: len(content)] = memoryview(content)
        return len(content)

    def read_buffer(self, size: int = -1, /) -> pa.Buffer:
        """Returns the next bytes, without a copy of what is held."""
        start, end = self._position, self._stream.nbytes
        stop = end if size < 0 else min(start + size, end)
        if stop <= start:
            return pa.py_buffer(b"")
        self._position = stop
        for first, last, content in self._held:
            if first <= start and stop <= last:
                return content.slice(start - first, stop - start)
        (chunk,) = self._stream.read_ranges([(start, stop)])
        return pa.py_buffer(chunk)
