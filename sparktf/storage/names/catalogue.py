"""The object that holds the names of one folder, and the changes of it: each is one swap of a head.

A change is a function from the tree that is there to the one that shall be. It is tried on the tree that was seen last,
which costs one request if nobody else has changed anything, and again on what is there now if the swap, or the change
itself, failed. Each stored tree names the last swaps that led to it: one whose answer was lost, and which others have
followed since, is not made a second time.
"""

from __future__ import annotations

import math
import random
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from sparktf.errors import StorageError, StorageNotFoundError, StorageUnavailableError
from sparktf.storage.base import ConditionalStorage
from sparktf.storage.names.tree import NamedFile, NamedFolder, NameParts, content_of, files_of, read_content
from sparktf.storage.transactions.head import Edition, HeadMovedError
from sparktf.storage.transactions.object_head import NO_EDITION, KnownEdition, ObjectHead

NAMES = "_names"
"""Folder beside a folder with names, in which the object lies. It outlives the folder, so that no frozen process
could change what is made anew under the same name."""

_TRIES = 40
_PAUSE_S = 0.05
_RECENT_S = 1.0
_STAGED = 256
"""Files written aside that a process remembers."""

REMEMBERED_SWAPS = 100
"""Swaps that a stored tree names."""


class SeenNames(NamedTuple):
    """The names as they were read or put."""

    known: KnownEdition
    root: NamedFolder
    swaps: tuple[str, ...]
    gone: bool  # Deleted


class NamesMemory:
    """The names of one folder as this process has seen them last; for any thread."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._lock = threading.Lock()
        self._seen: SeenNames | None = None
        self._seen_s = -math.inf
        self._staged: dict[NameParts, NamedFile | None] = {}
        self._doubted: int | None = None

    @property
    def seen(self) -> SeenNames | None:
        """The newest that was seen."""
        with self._lock:
            return self._seen

    def keep(self, seen: SeenNames) -> None:
        """Remembers it, unless something newer is known."""
        with self._lock:
            if self._seen is None or seen.known.number >= self._seen.known.number:
                self._seen, self._seen_s = seen, time.monotonic()
            if self._doubted is not None and seen.known.number > self._doubted:
                self._doubted = None

    def doubt(self, number: int) -> None:
        """Notes that a swap of an edition was not answered: it may still come, while that edition is the newest."""
        with self._lock:
            self._doubted = number

    @property
    def doubts(self) -> bool:
        """Whether such a swap may still come."""
        with self._lock:
            return self._doubted is not None

    def recent(self) -> NamedFolder | None:
        """Returns the names that this process has seen within the last second; None if it has seen none."""
        with self._lock:
            is_recent = self._seen is not None and time.monotonic() - self._seen_s < _RECENT_S
            return self._seen.root if is_recent and self._seen is not None and not self._seen.gone else None

    def has(self, file: NamedFile) -> bool:
        """Returns whether a file has a name, as far as this process has seen.

        A change whose answer was lost is made a second time if more than `REMEMBERED_SWAPS` have followed: as what it
        has replaced it then finds its own file.
        """
        seen = self.seen
        return seen is not None and any(kept.at == file.at for kept in files_of(seen.root))

    # ---- what this process has written aside, so that it need not look for it ----

    def wrote(self, path: NameParts, file: NamedFile) -> None:
        """Notes a staged file."""
        with self._lock:
            self._staged.pop(path, None)
            self._staged[path] = file
            if len(self._staged) > _STAGED:
                del self._staged[next(iter(self._staged))]  # it is looked for, then

    def written(self, path: NameParts) -> NamedFile | None:
        """Returns a staged file that this process has written last, and that it has not moved away."""
        with self._lock:
            return self._staged.get(path)

    def took(self, path: NameParts) -> None:
        """Notes that what is staged at and below a path was moved away."""
        with self._lock:
            for staged in self._staged:
                if staged[: len(path)] == path:
                    self._staged[staged] = None

    def forget_taken(self, path: NameParts) -> bool:
        """Forgets what is staged at and below a path; returns whether this process has staged it and moved it all."""
        with self._lock:
            below = [staged for staged in self._staged if staged[: len(path)] == path]
            left = [self._staged.pop(staged) for staged in below]
        return bool(left) and not any(left)


class Catalogue:
    """The names of one folder."""

    def __init__(self, storage: ConditionalStorage, folder: str, memory: NamesMemory | None = None) -> None:
        """Touches nothing.

        Args:
            folder: Its path.
            memory: What this process knows of it.
        """
        above, _, name = folder.rpartition("/")
        self.folder = folder
        self.memory = memory or NamesMemory()
        self._storage = storage
        self._path = f"{above}/{NAMES}/{name}"

    def read(self) -> SeenNames | None:
        """Returns the names that are there now; None where there is no such folder, and never was one."""
        head = ObjectHead(self._storage, self._path)
        edition = head.read()
        if edition.number == 0:
            return None
        try:
            seen = SeenNames(head.known, *read_content(edition.content))
        except ValueError as error:
            raise StorageError(f"cannot read {self._path}: {error}") from error
        self.memory.keep(seen)
        return seen

    def begin(self) -> None:
        """Makes the folder, unless it is there."""
        while (seen := self.read()) is None or seen.gone:
            try:
                self._swap(
                    seen or SeenNames(NO_EDITION, NamedFolder(), (), gone=True), NamedFolder(), secrets.token_hex(8)
                )
            except HeadMovedError:
                continue
            return

    def change(
        self, change: Callable[[NamedFolder], NamedFolder], *, gone: bool = False, trusts: bool = False
    ) -> NamedFolder:
        """Changes the names; returns those that it was made of.

        Args:
            change: Returns the new names, or the same object if there is nothing to change.
            gone: With this the folder is gone.
            trusts: That there was nothing to change when this process last looked will do.

        Raises:
            StorageError: of `change`, for the names that are there now; or the storage failed, and the change may be
                made all the same, or later, but only in place of the names that it was made of.
        """
        seen, is_fresh, mine = self.memory.seen, False, secrets.token_hex(8)
        tried = NamedFolder()
        for number in range(_TRIES):
            if seen is None:
                seen, is_fresh = self._there(), True
                if mine in seen.swaps:  # its answer was lost, and others have followed since
                    return tried
            try:
                root = change(seen.root)
                if (root is not seen.root or gone) and not seen.gone:
                    tried = seen.root  # an earlier one, if it was another, can no longer be replaced
                    return self._swap(seen, root, mine, gone=gone)
                if is_fresh or (trusts and not seen.gone):
                    return seen.root
            except HeadMovedError:
                time.sleep(_PAUSE_S * random.random() * min(number, 10))
            except StorageError:
                if is_fresh:
                    raise
            seen = None
        raise StorageUnavailableError(f"the names of {self.folder} are changed by others again and again: try again")

    def settle(self) -> None:
        """Sees to it that no change that this process gave up comes later: puts the names as they are, if need be.

        Raises:
            StorageError: the storage failed; such a change may still come.
        """
        while self.memory.doubts and (seen := self.read()) is not None and self.memory.doubts:
            with suppress(HeadMovedError):
                self._swap(seen, seen.root, secrets.token_hex(8), gone=seen.gone)

    def _swap(self, seen: SeenNames, root: NamedFolder, mine: str, *, gone: bool = False) -> NamedFolder:
        head, swaps = ObjectHead(self._storage, self._path, seen.known), (mine, *seen.swaps[: REMEMBERED_SWAPS - 1])
        try:
            head.swap(Edition(seen.known.number), content_of(root, swaps, gone=gone))
        except StorageError:
            self.memory.doubt(seen.known.number)
            raise
        self.memory.keep(SeenNames(head.known, root, swaps, gone))
        return seen.root

    def _there(self) -> SeenNames:
        seen = self.read()
        if seen is None or seen.gone:
            raise StorageNotFoundError(f"{self.folder} is gone: No such file or directory")
        return seen
