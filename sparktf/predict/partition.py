"""The predictions of a day on a file system: a partition that is replaced as a whole, whatever its writers die at.

<path>/
    date=2026-11-20/            whole from the moment it is seen
    _scored-2026-11-20-.../     on its way; Spark and Hive look into nothing whose name begins with "_"
    _before-2026-11-20-.../     what was in its place, for the moment between two renames
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError, StorageUnavailableError
from sparktf.storage.base import Storage, name_of

_SCORED, _BEFORE = "_scored-", "_before-"
_LEFT_S = 24 * 3600.0
"""What nobody has written to for so long was left by a process that is dead."""
_TRIES = 20


class Partition:
    """A day's predictions. Any number of processes may replace them: readers see those of one, and all of them."""

    def __init__(self, storage: Storage, path: str, column: str, date: str) -> None:
        """Touches nothing."""
        self.folder = f"{path.rstrip('/')}/{column}={date}"
        self._storage = storage
        self._path = path.rstrip("/")
        self._date = date

    def replace(self, write: Callable[[str], None], now_s: float) -> None:
        """Has the partition written, and then puts it in the place of what is there.

        Args:
            write: Writes it into a new folder.
            now_s: Since 1970.

        Raises:
            StorageError: the storage failed; readers have what they had.
        """
        self.tidy(now_s)
        scored = f"{self._path}/{_SCORED}{self._date}-{uuid.uuid4().hex[:8]}"
        try:
            write(scored)
            self._put(scored)
        finally:
            with suppress(StorageError):
                self._storage.delete(scored)

    def tidy(self, now_s: float) -> None:
        """Puts back what a process has taken away that died before its own was in place, and deletes what others left.

        Raises:
            StorageError: the storage failed.
        """
        for folder in self._aside(_BEFORE):
            if self._storage.exists(self.folder):
                self._storage.delete(folder)
            else:
                with suppress(StorageExistsError):
                    self._storage.rename(folder, self.folder)
        for folder in self._aside(_SCORED):
            ages_s = [now_s - file.modified_ms / 1000 for file in self._storage.walk(folder)]
            if ages_s and min(ages_s) > _LEFT_S:
                self._storage.delete(folder)

    def _aside(self, prefix: str) -> list[str]:
        try:
            entries = self._storage.list(self._path)
        except StorageNotFoundError:
            return []
        return [entry.path for entry in entries if name_of(entry.path).startswith(f"{prefix}{self._date}-")]

    def _put(self, scored: str) -> None:
        before: list[str] = []
        try:
            for _ in range(_TRIES):
                with suppress(StorageExistsError):
                    self._storage.rename(scored, self.folder)
                    break
                before.append(f"{self._path}/{_BEFORE}{self._date}-{uuid.uuid4().hex[:8]}")
                with suppress(StorageNotFoundError):  # another process was quicker
                    self._storage.rename(self.folder, before[-1])
            else:
                raise StorageUnavailableError(f"{self.folder} is replaced by others again and again: try again")
        except StorageError:
            self._put_back(before)
            raise
        for folder in before:
            with suppress(StorageError):  # the next one that writes this day does it
                self._storage.delete(folder)

    def _put_back(self, before: Sequence[str]) -> None:
        """Puts back what was taken away last, unless another is there by now; whoever tidies next does it, too."""
        for folder in reversed(before):
            with suppress(StorageError):
                self._storage.rename(folder, self.folder)
