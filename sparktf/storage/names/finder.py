"""Which folder with names a path is in: the nearest above it whose names are there.

What was found once is remembered: such a folder keeps its names for ever. That there is none is remembered for a
moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from sparktf.storage.base import ConditionalStorage
from sparktf.storage.names.catalogue import NAMES, Catalogue, NamesMemory

_NONE_S = 1.0
"""So long a folder without names is taken for one."""

_NONES = 1_000


class Finder:
    """The folders with names in one container, as far as this process knows them; for any thread."""

    def __init__(self) -> None:
        """Knows nothing yet."""
        self._lock = threading.Lock()
        self._memories: dict[str, NamesMemory] = {}
        self._none: dict[str, float] = {}

    def memory(self, folder: str) -> NamesMemory:
        """Returns the memory of a folder with names."""
        with self._lock:
            return self._memories.setdefault(folder, NamesMemory())

    def find(self, storage: ConditionalStorage, path: str) -> str | None:
        """Returns the folder with names that a path is in, or is; None without one. Raises `StorageError`."""
        above = list(_above(path))
        with self._lock:
            known = next((folder for folder in above if folder in self._memories), None)
            if known is not None:
                return known
            now_s = time.monotonic()
            asked = [folder for folder in above if self._none.get(folder, 0.0) <= now_s]
        for folder in asked:
            memory = NamesMemory()
            if Catalogue(storage, folder, memory).read() is not None:
                with self._lock:
                    self._memories.setdefault(folder, memory)
                return folder
            self._note_none(folder)
        return None

    def _note_none(self, folder: str) -> None:
        now_s = time.monotonic()
        with self._lock:
            if len(self._none) > _NONES:
                self._none = {known: until_s for known, until_s in self._none.items() if until_s > now_s}
            self._none[folder] = now_s + _NONE_S


def _above(path: str) -> Iterator[str]:
    """Yields a path and the folders above it, up to the container, which has no names."""
    scheme, _, below = path.partition("://")
    parts = [part for part in below.split("/") if part]
    if NAMES in parts:
        return
    for end in range(len(parts), 1, -1):
        yield f"{scheme}://{'/'.join(parts[:end])}"
