"""Changes that readers see, on a storage that renames: each passes through a folder that belongs to one process.

The theory is fencing. A rename into or out of a missing folder fails, on HDFS and on local file systems, and no passage
is made twice under one name. Moving a passage away therefore ends all changes of its process, wherever that is frozen
and for however long: the changing operation itself finds the passage gone, and no clock or lock has to be asked before.
A new folder is renamed into the passage and out to its place; an old one is renamed in. A small file is written aside
first: a write makes missing folders, and would recreate a passage that is gone.

A process that takes over makes its passage first, and then moves all others into it: of two that begin at once, each
moves the other's, and never do both change anything. One that was frozen meanwhile moves nothing more: its own is gone.

This rests on renames and not on a `Head`, since readers know of no head: a rename shows a checkpoint, a version or a
day whole and in one step to Spark, Hive and TensorFlow Serving, which list folders. The run's head decides which
passage counts: the name of a `Fence` has the number of its owner's term.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sparktf.errors import LifecycleError, StorageError, StorageNotFoundError
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.replaced_folder import replace_folder
from sparktf.told import log_of

PUT = "_put-"
"""Prefix of the folder in which a small file is written before it is moved into the passage."""

SWEPT = "swept-"

_log = log_of(__name__)


class Passage:
    """One process's passage to the contents of a folder; a subclass names the error for a passage that is gone.

    Each method that changes something raises that error if the passage is gone, and then nothing has changed; and
    `StorageError` if the storage failed.
    """

    def __init__(self, storage: Storage, parent: str, hasty: Storage | None = None) -> None:
        """Touches nothing.

        Args:
            parent: The folder that the passage is made in.
            hasty: The same storage, without retries: for tidying up, which the next process does as well.
        """
        self._storage = storage
        self._hasty = hasty or storage
        self._parent = parent
        self._path: str | None = None
        self._putting = f"{PUT}{secrets.token_hex(4)}-"

    @property
    def path(self) -> str | None:
        """Its folder, from begin to end; another process may have moved it away."""
        return self._path

    def lose(self) -> Exception:
        """Notes that it is gone; returns the error to raise."""
        raise NotImplementedError

    @contextmanager
    def guarded(self) -> Iterator[str]:
        """Gives the folder to a block of renames; a storage error becomes that of `lose` if the folder is gone.

        Raises:
            LifecycleError: there is none.
        """
        if self._path is None:
            raise LifecycleError(f"a change below {self._parent} without a {type(self).__name__.lower()}")
        path = self._path
        try:
            yield path
        except StorageError as error:
            if self.is_gone():
                raise self.lose() from error
            raise

    def check(self) -> None:
        """Raises the error if it is gone."""
        with self.guarded() as path:
            self._storage.stat(path)

    def is_gone(self) -> bool:
        """Whether another process has moved it away; False if there is none, or the storage does not answer."""
        try:
            return self._path is not None and not self._hasty.exists(self._path)
        except StorageError:
            return False

    # ---- changes ----

    def take_in(self, path: str) -> str | None:
        """Moves a path into the passage, in one step; returns the new path, None if there was nothing."""
        with self.guarded() as held:
            if not self._storage.exists(path):
                return None
            aside = self._aside(held)
            self._storage.rename(path, aside)
            return aside

    def place(self, source: str, target: str, passing: str | None = None) -> None:
        """Moves a file or folder to its place, which is free.

        Args:
            passing: Its name within the passage. Default: the same as at its place.

        Raises:
            StorageExistsError: it is not free.
        """
        with self.guarded() as held:
            inside = f"{held}/{passing or name_of(target)}"
            self._storage.rename(source, inside)
            self._storage.rename(inside, target)

    def replace(self, held: str, target: str) -> None:
        """Moves a folder from the passage to its place; one that is there is moved in, and back if that fails."""
        with self.guarded() as path:
            self.discard(*replace_folder(self._storage, held, target, lambda: self._aside(path)))

    def put(self, path: str, content: bytes) -> None:
        """Writes a small file, whole or not at all, replacing one that is there."""
        with self.guarded() as held:
            if self._is_written(self._storage, held, path, content):
                return
        self.show(self.prepare(path, content), path)

    def prepare(self, path: str, content: bytes) -> str:
        """Writes a small file into the passage, for `show`; returns its path."""
        with self.guarded() as held:
            return self._write(self._storage, held, path, content)

    def show(self, written: str, path: str) -> None:
        """Moves a file that `prepare` has written to its place, replacing one that is there."""
        with self.guarded():
            self._storage.replace(written, path)

    def discard(self, *folders: str) -> None:
        """Deletes folders without readers; the next process sweeps those that cannot be deleted."""
        for folder in folders:
            try:
                self._hasty.delete(folder)
            except StorageError as error:
                _log.warning("a folder was not deleted and is left for the next process to delete: %s", error)

    # ---- for subclasses ----

    def _is_written(self, storage: Storage, held: str, path: str, content: bytes) -> bool:
        """Writes a file in one step where the storage can; returns whether it can.

        Raises:
            StorageNotFoundError: the folder of the passage is gone.
            StorageError: the storage failed.
        """
        is_there = storage.write_if(path, content, held)
        if is_there is False:
            raise StorageNotFoundError(f"cannot write {path}: {held} is gone")
        return is_there is True

    def _write(self, storage: Storage, held: str, path: str, content: bytes) -> str:
        nonce = secrets.token_hex(4)
        aside, inside = f"{self._parent}/{self._putting}{nonce}", f"{held}/put-{nonce}"
        try:
            storage.write_bytes(f"{aside}/{name_of(path)}", content)
            storage.rename(f"{aside}/{name_of(path)}", inside)
        finally:
            self.discard(aside)
        return inside

    def _aside(self, held: str) -> str:
        return f"{held}/old-{secrets.token_hex(4)}"

    def _names(self, folder: str) -> list[str]:
        return [name_of(entry.path) for entry in self._storage.list(folder)]

    def _sweep_in(self, paths: Iterable[str]) -> list[tuple[str, str]]:
        """Moves folders of others into the passage, out of their reach; returns their names, and where they are now."""
        nonce, swept = secrets.token_hex(4), []
        for number, path in enumerate(paths):
            aside = f"{self._path}/{SWEPT}{nonce}-{number}"
            try:
                self._storage.rename(path, aside)
            except StorageNotFoundError:
                continue  # another that begins at the same moment has moved it, or its owner has ended it
            swept.append((name_of(path), aside))
        return swept
