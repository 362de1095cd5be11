"""Reading of splits in sequence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from sparktf.feed.arrays.row_group import RowGroup
from sparktf.sequence import Split


class Reader(Protocol):
    """Reads splits of files of one format; used by one thread."""

    def read(self, split: Split, only: Collection[str] | None = None) -> RowGroup:
        """Returns the rows of a split, by default with all columns that features use.

        Raises:
            SourceNotFoundError: the file is gone.
            CorruptFileError: the file cannot be read, or has changed since it was planned.
            StorageError: the file system failed.
        """

    def close(self) -> None:
        """Closes open files."""


class SplitSequence:
    """Reads splits in sequence; from a remote storage, some readers take turns: one decodes while the others wait."""

    def __init__(self, new_reader: Callable[[], Reader], *, ahead: int) -> None:
        """Reads nothing yet.

        Args:
            ahead: Readers, with a thread each; 1 for one in the caller's thread, which reads nothing ahead.
        """
        self._splits: deque[Split] = deque()
        self._readers = [new_reader() for _ in range(ahead)]
        is_remote = ahead > 1
        # Each reader has its own thread: it keeps files open, and these have one position each.
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="read") for _ in self._readers if is_remote]
        self._ahead: deque[Future[RowGroup]] = deque()
        self._submitted = 0

    def add(self, splits: Iterable[Split]) -> None:
        self._splits.extend(splits)

    def read(self, count: int) -> list[RowGroup]:
        """Returns the next row groups; raises what `Reader.read` does."""
        return [self._read_next() for _ in range(count)]

    def _read_next(self) -> RowGroup:
        if not self._threads:
            return self._readers[0].read(self._splits.popleft())
        while self._splits and len(self._ahead) < len(self._threads):
            turn = self._submitted % len(self._threads)
            self._ahead.append(self._threads[turn].submit(self._readers[turn].read, self._splits.popleft()))
            self._submitted += 1
        return self._ahead.popleft().result()

    def close(self) -> None:
        """Closes the files, after a read in progress has ended."""
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()
