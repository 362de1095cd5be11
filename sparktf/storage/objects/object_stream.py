"""A file in a store, read by ranges."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import obstore

from sparktf.errors import StorageError
from sparktf.storage.objects.object_errors import is_precondition, object_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore import GetOptions
    from obstore.store import ObjectStore
    from typing_extensions import Buffer


class ObjectStream(io.RawIOBase):
    """A seekable stream of one edition of an object: what replaces it meanwhile is not read, but an error.

    Each read is one request; `io.BufferedReader` around it makes fewer of small ones.

    Attributes:
        nbytes: Of the object.
        is_pinned: See `Storage.open`.
    """

    is_pinned = True

    def __init__(self, client: Callable[[], ObjectStore], key: str, path: str, nbytes: int, e_tag: str | None) -> None:
        """Reads nothing yet.

        Args:
            client: Returns the store's, with the present secrets.
            e_tag: Of the edition.
        """
        self._client = client
        self._key = key
        self._path = path
        self._e_tag = e_tag
        self._position = 0
        self.nbytes = nbytes

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

    def _range(self, start: int, end: int) -> memoryview:
        with object_errors("read", self._path):
            try:
                options: GetOptions = {"range": (start, end), "if_match": self._e_tag}
                chunk = memoryview(obstore.get(self._client(), self._key, options=options).bytes())
            except Exception as error:
                if is_precondition(error):
                    raise StorageError(f"cannot read {self._path}: it was replaced while it was read") from error
                raise
        if len(chunk) != end - start:
            raise StorageError(f"cannot read {self._path}: {len(chunk)} of {end - start} bytes arrived")
        return chunk
