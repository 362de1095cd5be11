"""Record batches of one split: in memory while there is room, the rest in a file."""

from __future__ import annotations

import threading
from bisect import bisect_right
from pathlib import Path

import pyarrow as pa


class Budget:
    """Memory that several splits share, in bytes; thread-safe."""

    def __init__(self, nbytes: int) -> None:
        self._lock = threading.Lock()
        self._left = nbytes

    def reserve(self, nbytes: int) -> bool:
        """Takes the bytes if they are available; returns whether they were."""
        with self._lock:
            if nbytes > self._left:
                return False
            self._left -= nbytes
            return True

    def give(self, nbytes: int) -> None:
        """Gives bytes back."""
        with self._lock:
            self._left += nbytes


class StagedRows:
    """The rows of one split in the order in which they came. One thread appends; after `seal`, any thread may read.

    Attributes:
        rows: Number of rows.
        nbytes: Their bytes in Arrow's form, of which `spilled_nbytes` are in the file.
    """

    def __init__(self, budget: Budget, path: Path) -> None:
        """Holds nothing yet; makes the file at `path` only when `budget` is used up."""
        self.rows = 0
        self.nbytes = 0
        self.spilled_nbytes = 0
        self._budget = budget
        self._path = path
        self._starts: list[int] = []
        self._kept: list[pa.RecordBatch] = []
        self._lock = threading.Lock()
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._reader: pa.ipc.RecordBatchFileReader | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends rows.

        Raises:
            OSError: the file cannot be written.
        """
        if not batch.num_rows:
            return
        nbytes = batch.nbytes
        if self._writer is None and self._budget.reserve(nbytes):
            self._kept.append(batch)
        else:
            if self._writer is None:
                self._writer = pa.ipc.new_file(pa.OSFile(str(self._path), "wb"), batch.schema)
            self._writer.write_batch(batch)
            self.spilled_nbytes += nbytes
        self._starts.append(self.rows)
        self.rows += batch.num_rows
        self.nbytes += nbytes

    def seal(self) -> None:
        """Ends the writing.

        Raises:
            OSError: the file cannot be written.
        """
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._reader = pa.ipc.open_file(pa.OSFile(str(self._path)))

    def read(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Returns rows `[start, stop)`, in batches of at least one row.

        Raises:
            OSError: the file cannot be read.
        """
        found: list[pa.RecordBatch] = []
        i = bisect_right(self._starts, start) - 1
        while start < stop:
            batch = self._batch(i)
            first = start - self._starts[i]
            taken = min(batch.num_rows - first, stop - start)
            found.append(batch.slice(first, taken))
            start, i = start + taken, i + 1
        return found

    def release(self) -> None:
        """Gives memory and file back. Batches that were read stay valid."""
        with self._lock:
            self._budget.give(self.nbytes - self.spilled_nbytes)
            self.nbytes = self.spilled_nbytes = 0
            self._kept, self._reader, self._writer = [], None, None
        self._path.unlink(missing_ok=True)

    def _batch(self, i: int) -> pa.RecordBatch:
        if i < len(self._kept):
            return self._kept[i]
        with self._lock:  # a reader has one position
            if self._reader is None:
                raise ValueError("the rows were read before they were sealed, or after their release")
            return self._reader.get_batch(i - len(self._kept))
