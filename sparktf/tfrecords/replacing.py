"""A folder of files that takes the place of another one: readers find the old one or the new one, and one stays.

<above>/
    records/                       what readers look at
    _records-1a2b3c4d/             on its way
    _records-before-1a2b3c4d/      what was in its place, for the moment between two renames
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import NONCE, is_left, staged_name

_BEFORE = "before-"


class Folder:
    """A folder that is written beside its place, and then moved there."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Touches nothing. `path` has no slash at its end."""
        self._storage = storage
        self._path = path
        self._above, _, self._name = path.rpartition("/")

    def tidy(self, now_s: float) -> None:
        """Restores the folder if a killed process took it away without replacing it, and deletes leftovers.

        Args:
            now_s: Since 1970.

        Raises:
            StorageError: the storage failed.
        """
        # Whole names: staged folders of another folder may begin with this one's name.
        name = re.escape(self._name)
        taken, left = re.compile(rf"_{name}-{_BEFORE}{NONCE}"), re.compile(rf"_{name}-{NONCE}")
        with suppress(StorageNotFoundError):
            for entry in self._storage.list(self._above or "/"):
                if taken.fullmatch(name_of(entry.path)):
                    self._restore(entry.path)
                elif left.fullmatch(name_of(entry.path)):
                    with suppress(StorageError):  # it may belong to another user
                        if is_left(self._storage, entry, now_s):
                            self._storage.delete(entry.path)

    @contextmanager
    def staged(self) -> Iterator[str]:
        """Yields the path of a new folder beside it, which is deleted afterwards unless it was moved."""
        aside = f"{self._above}/{staged_name(f'_{self._name}-')}"
        try:
            yield aside
        finally:
            with suppress(StorageError):
                self._storage.delete(aside)

    def put(self, staged: str, *, replaces: bool) -> None:
        """Moves a staged folder into place.

        Args:
            replaces: Whether to replace an existing one.

        Raises:
            StorageExistsError: one exists, or has appeared meanwhile.
            StorageError: the storage failed; the old folder is in place, or where the message says.
        """
        before = f"{self._above}/{staged_name(f'_{self._name}-{_BEFORE}')}"
        was_there = replaces and self._take_away(before)
        try:
            self._storage.rename(staged, self._path)
        except BaseException as error:  # Ctrl-C too
            if was_there:
                self._put_back(before, error)
            raise
        with suppress(StorageError):  # the next writer restores it
            self._storage.delete(before)

    def _take_away(self, before: str) -> bool:
        try:
            self._storage.rename(self._path, before)
        except StorageNotFoundError:
            return False
        return True

    def _put_back(self, before: str, error: BaseException) -> None:
        try:
            self._storage.rename(before, self._path)
        except StorageError:
            raise StorageError(
                f"{self._path} could not be replaced: {error}; its old content is in {before}, and is restored by the "
                "next overwriting"
            ) from error

    def _restore(self, before: str) -> None:
        if self._storage.exists(self._path):
            self._storage.delete(before)
        else:
            with suppress(StorageExistsError, StorageNotFoundError):  # another process did it first
                self._storage.rename(before, self._path)
