"""A small content that several processes change: each change applies to the edition its maker has read, or not at all.

This is optimistic concurrency control by put-if-absent of numbered editions, as in the log of Delta Lake: a
compare-and-swap register on a file system. Nobody takes a lock. A process reads the newest edition, decides on the next
one, and puts that under the next number, by the one operation of a storage that refuses a name which is taken. Of all
processes that swap the same edition one succeeds; to the others the head has moved, and their decision is void.

- The newest edition counts. Each is whole from the moment it is seen: it is made under another name.
- The number is a fencing token. A process that was frozen between read and put may find that its number was used,
  followed and deleted meanwhile, so that the put succeeds. It therefore looks again after the put, and has lost if
  there is a newer edition. For that the newest edition is never deleted: a swap deletes only older ones.
- The answer to a put may be lost. The content tells whose edition it is, so no two processes swap in the same content
  (give it a nonce). If that cannot be found out either, the swap fails as the storage did; the edition may be there all
  the same, and the next reader finds it.
- A process that is told that the head has moved may have been first, if another one has read its edition and followed
  it before the second look. So read again after a failure; do not count it.

`FolderHead` puts an edition by a rename that refuses its target, which HDFS and local file systems have. A store of
objects has no rename: there `ObjectHead` (`object_head.py`) replaces one object, on the condition that it is still the
edition that was read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from sparktf.errors import StorageError, StorageNotFoundError
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import discard, staged_name

_NEW = "_new-"
_EDITION = re.compile(r"^\d{6,}$")
_BEGUN = re.compile(rf"^{_NEW}(\d{{6,}})-")


class HeadMovedError(Exception):
    """The edition that was read is no longer the newest: read again."""


class Edition(NamedTuple):
    """A numbered content of a head."""

    number: int = 0  # From 1 on; 0 before the first one
    content: bytes = b""  # Empty if it is lost


class Head(Protocol):
    """A content of which the newest edition counts."""

    def path(self, number: int) -> str:
        """Returns the path below which the files of an edition lie."""

    def newest(self) -> int:
        """Returns the number of the newest edition, which costs less than reading it. Raises `StorageError`."""

    def read(self) -> Edition:
        """Returns the newest edition. Raises `StorageError`."""

    def swap(self, edition: Edition, content: bytes) -> Edition:
        """Puts the edition that follows the one that was read; returns it.

        Args:
            content: Unique to this swap.

        Raises:
            HeadMovedError: another edition follows it, or follows this one already.
            StorageError: the storage failed; the edition may be there all the same: read again.
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
            folder: For the editions alone.
            file: Name of the file that holds the content.
            beside: Other files that an edition has from the moment it is seen; its maker may rewrite them.
            hasty: The same storage, without retries: for deleting old editions, which the next swap would do as well.
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
            discard(self._hasty, aside)

    def _confirm(self, new: Edition) -> None:
        """Raises `HeadMovedError` for an edition that was put too late, below a newer one."""
        if self.newest() > new.number:
            raise HeadMovedError

    def _is_there(self, edition: Edition) -> bool:
        """Whether an edition was put although the storage reported a failure. Raises `StorageError`."""
        try:
            return self._content(edition.number) == edition.content
        except StorageNotFoundError:
            return False

    def _content(self, number: int) -> bytes:
        return self._storage.read_bytes(f"{self.path(number)}/{self._file}")

    def _prune(self, newest: int) -> None:
        """Deletes older editions, and unfinished puts of others under a number that is taken."""
        with suppress(StorageError):
            for name in self._names(self._hasty):
                begun = _BEGUN.match(name)
                if (int(begun[1]) if begun else _number(name)) < newest + bool(begun):
                    discard(self._hasty, f"{self._folder}/{name}")

    def _names(self, storage: Storage) -> list[str]:
        try:
            return [name_of(entry.path) for entry in storage.list(self._folder)]
        except StorageNotFoundError:
            return []


def edition_name(number: int) -> str:
    """Returns the name of an edition's folder."""
    return f"{number:06d}"


def _number(name: str) -> int:
    return int(name) if _EDITION.match(name) else 0
