"""Files in a store that the readers of one feed share, so that each is asked for once and not by each of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

OPEN_FILES = 16
"""Files that readers keep open: blocks return to a file for each row group."""

_Opened = TypeVar("_Opened")


@dataclass
class _Entry(Generic[_Opened]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    found: _Opened | None = None


class OnceOpened(Generic[_Opened]):
    """Files that readers have opened last, by path; thread-safe. Who asks for the same path waits for the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry[_Opened]] = OrderedDict()

    def get(self, path: str, make: Callable[[], _Opened | None]) -> _Opened | None:
        """Returns the thing made of a path, or makes it; None is not kept. Raises what `make` does."""
        with self._lock:
            entry = self._entries.setdefault(path, _Entry())
            self._entries.move_to_end(path)
            while len(self._entries) > OPEN_FILES:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.found is None:
                entry.found = make()
            return entry.found

    def forget(self, path: str) -> None:
        """Has the next who asks for a path make it again."""
        with self._lock:
            self._entries.pop(path, None)
