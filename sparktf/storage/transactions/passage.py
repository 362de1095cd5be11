"""The way to what readers see, on a storage that renames: each change passes through a folder of the process's own.

The theory is fencing. A rename into or out of a missing folder fails, on HDFS and on local file systems, and nobody
makes a passage of the same name twice. So whoever moves a passage away has ended the changes of its process, wherever
that was frozen and for how long: the one step that would change something also finds the passage gone, and no look at
a clock or a lock has to come before it. What is new is renamed into the passage and out to its place; what is old is
renamed in. A small file is written aside: to write makes folders, and would mend a passage that is gone.

Whoever takes over makes a passage first, and then moves all others into it: of two that begin at once, each moves the
other's, and never do both change. Who was frozen in the midst of that moves nothing any more, its own being gone.

There are renames beneath, and no `Head`, since readers know of none: a rename shows a checkpoint, a version or a day
whole and in one step to Spark, Hive and TensorFlow Serving, which list folders. Whose passage counts a run's head does
say: a `Fence` bears the number of its owner's term.
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
"""Before the name of what a small file is written in, on its way into the passage."""

SWEPT = "swept-"

_log = log_of(__name__)


class Passage:
    """One process's way to what lies in a folder. A kind of it says by which error its process ends without it.

    Each method that changes something raises that error where the passage is gone, which leaves all as it was, and
    `StorageError` where the storage failed.
    """

    def __init__(self, storage: Storage, parent: str, hasty: Storage | None = None) -> None:
        """Touches nothing.

        Args:
            parent: The folder that the passage is made in.
            hasty: The same storage, for what is not worth waiting for: tidying up, which whoever begins next makes up
                for.
        """
        self._storage = storage
        self._hasty = hasty or storage
        self._parent = parent
        self._path: str | None = None
        self._putting = f"{PUT}{secrets.token_hex(4)}-"

    @property
    def path(self) -> str | None:
        """Its folder, once it is made, and until it is left; it may be gone all the same."""
        return self._path

    def lose(self) -> Exception:
        """Notes that it is gone; returns what its process ends with."""
        raise NotImplementedError

    @contextmanager
    def guarded(self) -> Iterator[str]:
        """Gives the folder to a block of renames; turns what fails for want of it into what that means.

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
        """Looks whether it is there."""
        with self.guarded() as path:
            self._storage.stat(path)

    def is_gone(self) -> bool:
        """Whether somebody has moved it away; False where there is none, or the storage does not say."""
        return self._path is not None and self.looks_gone(self._path)

    def looks_gone(self, path: str) -> bool:
        """Whether there is no such folder; False where the storage does not say. From any thread."""
        try:
            return not self._hasty.exists(path)
        except StorageError:
            return False

    # ---- changes ----

    def take_in(self, path: str) -> str | None:
        """Moves what lies at a path out of sight, in one step; returns where to, or None for nothing."""
        with self.guarded() as held:
            if not self._storage.exists(path):
                return None
            aside = self._aside(held)
            self._storage.rename(path, aside)
            return aside

    def place(self, source: str, target: str, passing: str | None = None) -> None:
        """Moves what lies elsewhere to its place, where nothing is.

        Args:
            passing: What it is called on its way. Default: as at its place.

        Raises:
            StorageExistsError: something is there.
        """
        with self.guarded() as held:
            inside = f"{held}/{passing or name_of(target)}"
            self._storage.rename(source, inside)
            self._storage.rename(inside, target)

    def replace(self, held: str, target: str) -> None:
        """Moves what lies in the passage to its place; what is there is moved in, and back where that fails."""
        with self.guarded() as path:
            self.discard(*replace_folder(self._storage, held, target, lambda: self._aside(path)))

    def put(self, path: str, content: bytes) -> None:
        """Writes a small file, whole or not at all, replacing one that is there."""
        self.show(self.prepare(path, content), path)

    def prepare(self, path: str, content: bytes) -> str:
        """Writes a small file into the passage, for `show`; returns where it lies."""
        with self.guarded() as held:
            return self._write(self._storage, held, path, content)

    def show(self, written: str, path: str) -> None:
        """Puts what was prepared in its place, in one step where the storage has one."""
        with self.guarded():
            self._storage.replace(written, path)

    def discard(self, *folders: str) -> None:
        """Deletes what has no reader any more; what cannot be is left for whoever begins next."""
        for folder in folders:
            try:
                self._hasty.delete(folder)
            except StorageError as error:
                _log.warning("left for the next one to sweep: %s", error)

    # ---- what its kinds are made of ----

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
        """Moves what others have made into the passage, out of their reach; returns their names, and where to."""
        nonce, swept = secrets.token_hex(4), []
        for number, path in enumerate(paths):
            aside = f"{self._path}/{SWEPT}{nonce}-{number}"
            try:
                self._storage.rename(path, aside)
            except StorageNotFoundError:
                continue  # another that begins at the same moment has moved it, or its owner has ended it
            swept.append((name_of(path), aside))
        return swept
