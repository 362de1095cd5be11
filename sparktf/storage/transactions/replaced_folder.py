"""A folder that replaces another one: readers find the old one or the new one, and one stays.

<above>/
    records/                       the folder that readers see
    _records-1a2b3c4d/             on its way
    _records-before-1a2b3c4d/      the old folder, for the moment between two renames

In a store of objects, which renames nothing, the files are copied to their places instead (`placed_objects`).

HDFS cannot exchange two folders in one step. A process that is killed in that moment leaves the old folder under a name
that shows its place, and the next process that writes there puts it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError, StorageUnavailableError
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import NONCE, abort_left, discard, is_left, staged_name
from sparktf.storage.transactions.placed_objects import put_folder, store_of

_BEFORE = "before-"

_TRIES = 20
"""Attempts to replace a folder that other processes replace at the same moment."""


def replace_folder(
    storage: Storage,
    source: str,
    target: str,
    new_aside: Callable[[], str],
    check: Callable[[str], None] = lambda folder: None,
) -> tuple[str, ...]:
    """Renames a folder to a place that may be taken; returns the new paths of old folders, to be deleted.

    Args:
        new_aside: Returns a new path for the old folder.
        check: Raises if a folder must not be replaced; called before it is moved away, and after.

    Raises:
        StorageError: the storage failed; the old folder is in its place, or at the path in the message.
        StorageUnavailableError: others replace it again and again.
    """
    taken: list[str] = []
    try:
        for _ in range(_TRIES):
            with suppress(StorageExistsError):
                storage.rename(source, target)
                return tuple(taken)
            check(target)
            taken.append(new_aside())
            with suppress(StorageNotFoundError):  # another process was quicker
                storage.rename(target, taken[-1])
                check(taken[-1])  # it may have come since it was looked at
        raise StorageUnavailableError(f"{target} is being replaced by others again and again: try again later")
    except BaseException as error:  # Ctrl-C too
        for aside in reversed(taken):
            _put_back(storage, aside, target, error)
        raise


def replace_file(storage: Storage, path: str, content: bytes, aside: str) -> None:
    """Writes a small file under a name of its own, then replaces another one by it. Raises `StorageError`."""
    try:
        storage.write_bytes(aside, content)
        storage.replace(aside, path)
    except StorageError:
        discard(storage, aside)
        raise


def _put_back(storage: Storage, aside: str, target: str, error: BaseException) -> None:
    try:
        storage.rename(aside, target)
    except (StorageNotFoundError, StorageExistsError):
        pass  # nothing was moved there, or another one is in its place by now
    except StorageError:
        raise StorageError(
            f"{target} could not be replaced: {error}; its former content is in {aside}, and the next writer puts it "
            "back"
        ) from error


def restore(storage: Storage, aside: str, target: str) -> None:
    """Puts back a folder moved away by a process that was killed before its own was in place. Raises `StorageError`."""
    if storage.exists(target):
        storage.delete(aside)
    else:
        with suppress(StorageExistsError, StorageNotFoundError):  # another process was quicker
            storage.rename(aside, target)


class ReplacedFolder:
    """A folder that is written beside its place, and then put there."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Touches nothing. The path does not end in a slash."""
        self._storage = storage
        self._path = path
        self._above, _, self._name = path.rpartition("/")

    def tidy(self, now_s: float) -> None:
        """Puts back a folder moved away by a killed process, and deletes other leftovers.

        Args:
            now_s: Since 1970.

        Raises:
            StorageError: the storage failed.
        """
        # Whole names: what is staged for another folder, whose name goes on where this one's ends, is not its own.
        name = re.escape(self._name)
        taken, left = re.compile(rf"_{name}-{_BEFORE}{NONCE}"), re.compile(rf"_{name}-{NONCE}")
        with suppress(StorageNotFoundError):
            for entry in self._storage.list(self._above or "/"):
                if taken.fullmatch(name_of(entry.path)):
                    restore(self._storage, entry.path, self._path)
                elif left.fullmatch(name_of(entry.path)):
                    with suppress(StorageError):  # another user's, say, who may write here too
                        if is_left(self._storage, entry, now_s):
                            self._storage.delete(entry.path)
        abort_left(self._storage, self._above, lambda path: bool(left.fullmatch(path.partition("/")[0])), now_s)

    @contextmanager
    def staged(self) -> Iterator[str]:
        """Gives a block the path of a new folder beside, which is deleted at its end if it was not put in place."""
        aside = self._aside()
        try:
            yield aside
        finally:
            discard(self._storage, aside)

    def put(self, staged: str, *, replaces: bool) -> None:
        """Puts a staged folder in place.

        Args:
            replaces: Whether it may replace another one.

        Raises:
            StorageExistsError: one is there, or has come meanwhile, and stays.
            StorageError: the storage failed; the old folder is in its place, or at the path in the message.
        """
        if (store := store_of(self._storage)) is not None:
            put_folder(store, staged, self._path, replaces=replaces)
            return
        if not replaces:
            self._storage.rename(staged, self._path)
            return
        discard(self._storage, *replace_folder(self._storage, staged, self._path, lambda: self._aside(_BEFORE)))

    def _aside(self, kind: str = "") -> str:
        return f"{self._above}/{staged_name(f'_{self._name}-{kind}')}"
