"""The file of the rows that a node has set aside."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from sparktf.errors import StorageError
from sparktf.feed.arrays.aside import BadRow
from sparktf.sequence import Stream
from sparktf.storage.base import Storage


class BadRowFile:
    """One JSON line for each row, or for rows in a row that cannot be read; written when there is something new."""

    def __init__(self, storage: Storage, path: str, warn: Callable[[str], None]) -> None:
        """Writes nothing yet.

        Args:
            warn: Told if the file could not be stored, which is no reason to stop.
        """
        self._storage = storage
        self._path = path
        self._warn = warn
        self._lines: list[str] = []
        self._stored = 0

    def add(self, stream: Stream, epoch: int, rows: Sequence[BadRow]) -> None:
        """Keeps rows for the next `flush`, which another thread may be in."""
        for row in rows:
            fields = {"stream": stream.value, "epoch": epoch, **row._asdict()}
            self._lines.append(json.dumps(fields, ensure_ascii=False) + "\n")

    def flush(self) -> None:
        """Stores what was added; all of the file, since storages cannot append."""
        count = len(self._lines)
        if count == self._stored:
            return
        try:
            self._storage.write_bytes(self._path, "".join(self._lines[:count]).encode())
        except StorageError as e:
            self._warn(f"the rows that were set aside are not stored: {e}")
            return
        self._stored = count
