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

from typing import NamedTuple

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError
from sparktf.storage.base import ConditionalStorage, Tag
from sparktf.storage.transactions.head import Edition, HeadMovedError


class KnownEdition(NamedTuple):
    """An edition that was read or put."""

    number: int = 0
    tag: Tag | None = None  # None where there is no object


NO_EDITION = KnownEdition()


class ObjectHead:
    """A head that is one object; see `Head`. For one thread.

    Attributes:
        known: Which edition it has read or put last.
    """

    def __init__(self, storage: ConditionalStorage, path: str, known: KnownEdition = NO_EDITION) -> None:
        """Touches nothing.

        Args:
            path: Of the object.
            known: Which edition was read or put last, by another `ObjectHead` of the same path.
        """
        self._storage = storage
        self._path = path
        self.known = known

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
            self.known = NO_EDITION
            return Edition()
        first, _, content = stored.partition(b"\n")
        if not first.isdigit():
            raise StorageError(f"cannot read {self._path}: it has no number, so it is no head of sparktf's")
        self.known = KnownEdition(int(first), tag)
        return Edition(self.known.number, content)

    def swap(self, edition: Edition, content: bytes) -> Edition:
        """See `Head`: one request, if this object has read the edition or put it."""
        if edition.number != self.known.number and self.newest() != edition.number:
            raise HeadMovedError
        new = Edition(edition.number + 1, content)
        try:
            tag = self._storage.put_tagged(self._path, b"%d\n%b" % new, self.known.tag)
        except StorageError as error:
            self._settle(edition, new, error)
        else:
            self.known = KnownEdition(new.number, tag)
        return new

    def _settle(self, edition: Edition, new: Edition, error: StorageError) -> None:
        """Returns if an edition was put although the storage reported a failure. Raises the fitting error if not."""
        found = self.read()
        if found == new:
            return
        if found.number != edition.number or isinstance(error, StorageExistsError):
            raise HeadMovedError from error
        raise error
