"""A head in a store of objects, which has no rename: one object, replaced only if it is still what was read.

The object holds the number of its edition in its first line, and the content below. It is put on a condition that the
store itself checks in the same step: that there is none (`If-None-Match: *`), or that it is the very edition that was
read (`If-Match` with its tag). Of all processes that swap the same edition one succeeds. A process that was frozen
between read and put comes too late whatever has happened meanwhile: no edition is like an earlier one, since its number
and its content are its own.

The answer to a put may be lost, and a client that tries again is told that the condition does not hold, by the edition
that it has put itself. So whoever is refused, or not answered, reads whose edition is there.
"""

from __future__ import annotations

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError
from sparktf.storage.base import ConditionalStorage, Tag
from sparktf.storage.transactions.head import Edition, HeadMovedError


class ObjectHead:
    """A head that is one object; see `Head`. For one thread."""

    def __init__(self, storage: ConditionalStorage, path: str) -> None:
        """Touches nothing. `path` is the object's."""
        self._storage = storage
        self._path = path
        self._number = 0
        self._tag: Tag | None = None

    def path(self, number: int) -> str:
        """See `Head`: the object has no other files, and is the same for all editions."""
        del number
        return self._path

    def newest(self) -> int:
        """See `Head`."""
        return self.read().number

    def read(self) -> Edition:
        """See `Head`."""
        try:
            stored, tag = self._storage.read_tagged(self._path)
        except StorageNotFoundError:
            self._number, self._tag = 0, None
            return Edition()
        first, _, content = stored.partition(b"\n")
        if not first.isdigit():
            raise StorageError(f"cannot read {self._path}: it has no number, so it is no head of sparktf's")
        self._number, self._tag = int(first), tag
        return Edition(self._number, content)

    def swap(self, edition: Edition, content: bytes) -> Edition:
        """See `Head`: one request, if this object has read the edition or put it."""
        if edition.number != self._number and self.newest() != edition.number:
            raise HeadMovedError
        new = Edition(edition.number + 1, content)
        try:
            self._tag = self._storage.put_tagged(self._path, b"%d\n%b" % new, self._tag)
        except StorageError as error:
            self._settle(edition, new, error)
        self._number = new.number
        return new

    def _settle(self, edition: Edition, new: Edition, error: StorageError) -> None:
        """Returns if an edition was put although the storage reported a failure. Raises the fitting error if not."""
        found = self.read()
        if found == new:
            return
        if found.number != edition.number or isinstance(error, StorageExistsError):
            raise HeadMovedError from error
        raise error
