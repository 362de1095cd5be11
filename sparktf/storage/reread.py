"""A small file that another process replaces now and then: read again when it has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_T = TypeVar("_T")


class RereadFile(Generic[_T]):
    """The first of some files that is there and can be read; thread-safe."""

    def __init__(self, places: Sequence[Path], parse: Callable[[bytes], _T], empty: _T) -> None:
        """Reads nothing yet.

        Args:
            parse: Makes the value of a content. A ValueError passes the file over.
            empty: The value without a file.
        """
        self._places = places
        self._parse = parse
        self._empty = empty
        self._lock = threading.Lock()
        self._seen = ""
        self._value = empty

    def read(self) -> tuple[str, _T]:
        """Returns the file's edition, "<path>|...", and its value; "" and the empty one where there is none."""
        with self._lock:
            for place in self._places:
                try:
                    found = place.stat()
                    seen = f"{place}|{found.st_ino}|{found.st_mtime_ns}"
                    if seen != self._seen:
                        self._value, self._seen = self._parse(place.read_bytes()), seen
                except (OSError, ValueError):
                    continue
                return self._seen, self._value
            self._value, self._seen = self._empty, ""
            return self._seen, self._value

    def forget(self) -> None:
        """Reads the file at the next question, also if it has not changed."""
        with self._lock:
            self._seen = ""
