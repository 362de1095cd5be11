"""A file in a store, read by ranges."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import obstore

from sparktf.errors import StorageError
from sparktf.storage.base import FileEntry
from sparktf.storage.objects.awaited import awaited
from sparktf.storage.objects.object_errors import is_precondition, object_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from obstore import GetOptions
    from obstore.store import ObjectStore
    from typing_extensions import Buffer

_AT_ONCE = 8
"""Ranges of one object that are read together: a single connection to a store is slow."""


class ObjectStream(io.RawIOBase):
    """A seekable stream of one edition of an object: what replaces it meanwhile is not read, but an error.

    Each read is one request; `io.BufferedReader` around it makes fewer of small ones.

    Attributes:
        entry: As it was found when it was opened.
        nbytes: Of the object.
        is_pinned: See `Storage.open`.
    """

    is_pinned = True

    def __init__(self, client: Callable[[], ObjectStore], key: str, entry: FileEntry, e_tag: str | None) -> None:
        """Reads nothing yet.

        Args:
            client: Returns the store's, with the present secrets.
            e_tag: Of the edition.
        """
        self._client = client
        self._key = key
        self._path = entry.path
        self._e_tag = e_tag
        self._position = 0
        self.entry = entry
        self.nbytes = entry.nbytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.nbytes}[whence]
        if start + offset < 0:
            raise ValueError(f"{self._path}: {start + offset} is before the beginning of the file")
        self._position = start + offset
        return self._position

    def readinto(self, into: Buffer) -> int:
        view = memoryview(into).cast("B")
        chunk = self.read_buffer(len(view))
        view[: len(chunk)] = chunk
        return len(chunk)

    def readall(self) -> bytes:
        return bytes(self.read_buffer(self.nbytes))

    def read_buffer(self, nbytes: int) -> memoryview:
        """Returns the next bytes, as many as asked for or up to the end, without copying them once more."""
        end = min(self._position + nbytes, self.nbytes)
        if end <= self._position:
            return memoryview(b"")
        chunk = self._range(self._position, end)
        self._position = end
        return chunk

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """See `RangedStream`; from any thread."""
        if len(ranges) < 2:
            return [self._range(*one) for one in ranges]
        with self._errors():
            chunks = awaited(self._ranges(ranges))
        return [self._whole(chunk, *one) for chunk, one in zip(chunks, ranges, strict=True)]

    async def _ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        client, free = self._client(), asyncio.Semaphore(_AT_ONCE)

        async def read(start: int, end: int) -> memoryview:
            async with free:
                found = await obstore.get_async(client, self._key, options=self._options(start, end))
                return memoryview(await found.bytes_async())

        return await asyncio.gather(*(read(*one) for one in ranges))

    def _range(self, start: int, end: int) -> memoryview:
        with self._errors():
            chunk = memoryview(obstore.get(self._client(), self._key, options=self._options(start, end)).bytes())
        return self._whole(chunk, start, end)

    def _options(self, start: int, end: int) -> GetOptions:
        return {"range": (start, end), "if_match": self._e_tag}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with object_errors("read", self._path):
            try:
                yield
            except Exception as error:
                if is_precondition(error):
                    raise StorageError(f"cannot read {self._path}: it was replaced while it was read") from error
                raise

    def _whole(self, chunk: memoryview, start: int, end: int) -> memoryview:
        if len(chunk) != end - start:
            raise StorageError(f"cannot read {self._path}: {len(chunk)} of {end - start} bytes arrived")
        return chunk
