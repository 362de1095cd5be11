"""A small content that any number of processes change, each change on top of the one that its maker has read.

This is optimistic concurrency control by put-if-absent of numbered editions, as the log of Delta Lake has it, and a
compare-and-swap register over a file system. Nobody locks anything: a process reads the newest edition, decides what
follows, and puts it down under the next number, by the one call that a storage has which refuses a name that is taken.
Of all that swap one edition, one succeeds; to all others the head has moved, and what they had decided is void.

- The newest edition counts, and every edition is whole from the moment it is seen: it is made under another name.
- A number is a fencing token. Who was frozen after it had read may find, when it wakes, that its number was used,
  followed, and deleted since: the put would succeed. So whoever has put an edition looks once more, and has lost where
  there is a newer one. For that the newest edition must never be deleted; whoever has put one deletes older ones alone.
- The answer to a put may be lost. Then whose edition it is tells its content: no two processes swap in the same one
  (give it a nonce). A put of which nothing can be found out has failed as the storage has, and may have succeeded all
  the same: whoever reads finds it, and nobody builds on it unknowingly.
- Who is told that the head has moved may have been its newest edition for a moment, which another has read and
  followed. So a swap is a change whose failure has to be read, not counted.

`FolderHead` puts an edition by a rename that refuses its target, which HDFS and local file systems have for folders. A
store of objects has no rename: there an edition is one object, put on the condition that there is none of its name,
and what an edition has beside it are objects of its own, put before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from sparktf.errors import StorageError, StorageNotFoundError
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import staged_name

_NEW = "_new-"
_EDITION = re.compile(r"^\d{6,}$")
_BEGUN = re.compile(rf"^{_NEW}(\d{{6,}})-")


class HeadMovedError(Exception):
    """Another edition is there than the one that was read: read again."""


class Edition(NamedTuple):
    """What a head says.

    Attributes:
        number: From 1 on; 0 where nothing was ever said.
        content: Empty where it is lost.
    """

    number: int = 0
    content: bytes = b""


class Head(Protocol):
    """What counts, as of now."""

    def path(self, number: int) -> str:
        """Returns what the names of all that belongs to an edition begin with: also of what lies beside its content."""

    def newest(self) -> int:
        """Returns the number of the newest edition, which is cheaper than to read it. Raises `StorageError`."""

    def read(self) -> Edition:
        """Returns the newest edition. Raises `StorageError`."""

    def swap(self, edition: Edition, content: bytes) -> Edition:
        """Makes a content the edition that follows the one that was read; returns it.

        Args:
            content: Such as no other process swaps in.

        Raises:
            HeadMovedError: another edition follows it, or follows this one already.
            StorageError: the storage failed; whether the edition is there is found out by reading.
        """


class FolderHead:
    """A head whose editions are folders `<number>/`, on a storage whose rename refuses a target."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        file: str,
        *,
        beside: Mapping[str, bytes] | None = None,
        hasty: Storage | None = None,
    ) -> None:
        """Touches nothing.

        Args:
            folder: Of all editions, and of nothing else.
            file: Which of an edition's files has its content.
            beside: Other files that an edition has from the moment it is seen; whoever put it may change them.
            hasty: The same storage, for deleting what is over, which the next swap makes up for.
        """
        self._storage = storage
        self._folder = folder
        self._file = file
        self._beside = dict(beside or {})
        self._hasty = hasty or storage

    def path(self, number: int) -> str:
        """See `Head`: an edition's folder."""
        return f"{self._folder}/{edition_name(number)}"

    def newest(self) -> int:
        """See `Head`."""
        return max((_number(name) for name in self._names(self._storage)), default=0)

    def read(self) -> Edition:
        """See `Head`."""
        number, before = self.newest(), 0
        while number != before:
            with suppress(StorageNotFoundError):  # followed since, and deleted; or it never had a content
                return Edition(number, self._content(number))
            before, number = number, self.newest()
        return Edition(number)

    def swap(self, edition: Edition, content: bytes) -> Edition:
        """See `Head`."""
        new = Edition(edition.number + 1, content)
        self._put(new)
        self._confirm(new)
        self._prune(new.number)
        return new

    def _put(self, new: Edition) -> None:
        aside = f"{self._folder}/{staged_name(_NEW, edition_name(new.number))}"
        try:
            for name, content in {**self._beside, self._file: new.content}.items():
                self._storage.write_bytes(f"{aside}/{name}", content)
            self._storage.rename(aside, self.path(new.number))
        except StorageError as error:
            # In this order: a put that is under way still comes before the look at whose it is, or after all of this.
            has_moved = self.newest() >= new.number
            if not self._is_there(new):
                if has_moved:
                    raise HeadMovedError from error
                raise
        finally:
            self._discard(aside)

    def _confirm(self, new: Edition) -> None:
        """Raises `HeadMovedError` for an edition that was put too late, below a newer one."""
        if self.newest() > new.number:
            raise HeadMovedError

    def _is_there(self, edition: Edition) -> bool:
        """Whether an edition was put although the storage said that it failed. Raises `StorageError`."""
        try:
            return self._content(edition.number) == edition.content
        except StorageNotFoundError:
            return False

    def _content(self, number: int) -> bytes:
        return self._storage.read_bytes(f"{self.path(number)}/{self._file}")

    def _prune(self, newest: int) -> None:
        """Deletes older editions, and what others have begun that is not to follow the newest: it never can be put."""
        with suppress(StorageError):
            for name in self._names(self._hasty):
                begun = _BEGUN.match(name)
                if (int(begun[1]) if begun else _number(name)) < newest + bool(begun):
                    self._discard(f"{self._folder}/{name}")

    def _discard(self, path: str) -> None:
        with suppress(StorageError):
            self._hasty.delete(path)

    def _names(self, storage: Storage) -> list[str]:
        try:
            return [name_of(entry.path) for entry in storage.list(self._folder)]
        except StorageNotFoundError:
            return []


def edition_name(number: int) -> str:
    """Returns what an edition's folder is called."""
    return f"{number:06d}"


def _number(name: str) -> int:
    return int(name) if _EDITION.match(name) else 0
