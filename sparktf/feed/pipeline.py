"""A node's input of one stream in one epoch: shuffle blocks read ahead, permuted, and cut into batches.

One thread reads and decodes row groups, a second one checks, packs and permutes them, the caller's copies batches out.
None of the three holds the interpreter's lock for long.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from sparktf.feature import FeedSpec
from sparktf.feed.blocks import BlockPart, Parts
from sparktf.feed.columns import (
    Array,
    Columns,
    allocate,
    concat_rows,
    copy_rows,
    empty_columns,
    take_rows,
)
from sparktf.feed.convert import RowGroup, assemble
from sparktf.plan import Interval, leading

_CLOSE_TIMEOUT_S = 5.0
_SPARE_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a part of a shuffle block.

    Attributes:
        columns: The rows, in the order in which they are trained.
        memory: What the numeric columns lie in, to be used again.
        start: The part's first row in them.
        rows: Rows of the part.
        first_row: Where it starts in the epoch sequence.
    """

    columns: Columns
    memory: Mapping[str, Array]
    start: int
    rows: int
    first_row: int

    def copy(self, start: int, stop: int) -> Columns:
        """Returns rows `[start, stop)` of the part."""
        return copy_rows(self.columns, self.start + start, self.start + stop)


class ReadAhead(NamedTuple):
    """A block that is read and perhaps still being assembled.

    Attributes:
        nbytes: What it will hold.
    """

    block: Future[Block]
    nbytes: int


class SpareMemory:
    """Memory of blocks that are done. Fresh memory from the system costs about as much time as packing rows into it."""

    def __init__(self, spec: FeedSpec) -> None:
        self._features = spec.features
        self._spares: deque[Mapping[str, Array]] = deque(maxlen=_SPARE_BLOCKS)

    def take(self, rows: int) -> Mapping[str, Array]:
        """Returns an array for each numeric feature, [rows, *shape] or longer."""
        # Emptied and refilled by two threads; each step of a deque is atomic.
        while self._spares:
            spare = self._spares.popleft()
            # Much too large is no use either: a few large blocks would make all small ones as large.
            if all(rows <= len(array) <= 2 * rows for array in spare.values()):
                return spare
        return allocate(self._features, rows)

    def give(self, memory: Mapping[str, Array]) -> None:
        """Takes memory back that nobody reads any more."""
        self._spares.append(memory)


class NodeFeed:
    """Reads a share beside the caller and hands out batches of exact row counts.

    Attributes:
        rows_taken: Rows handed out so far; `consumed` turns them into a cursor.
        wait_s: Seconds that `take` has waited for rows.
        nbytes: Bytes read from files so far, of which `local_nbytes` lie on this node's own host.
    """

    def __init__(self, spec: FeedSpec, parts: Parts) -> None:
        """Starts to read."""
        self.rows_taken = 0
        self.wait_s = 0.0
        self.nbytes = 0
        self.local_nbytes = 0
        self._spec = spec
        self._parts = parts
        self._drained = False
        self._begun: list[Interval] = []
        self._spare = SpareMemory(spec)
        self._scratch = SpareMemory(spec)
        self._assembler = ThreadPoolExecutor(1, thread_name_prefix="assemble")
        self._block: Block | None = None
        self._block_taken = 0
        self._changed = threading.Condition()
        # What follows is shared with the reading thread, under the condition's lock.
        self._ready: deque[ReadAhead] = deque()
        self._ready_nbytes = 0
        self._finished = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    @property
    def rows(self) -> int:
        """Rows of the whole share as far as they are known: all of a planned one, else those handed out."""
        return self.rows_taken if self._parts.rows is None else self._parts.rows

    def is_all(self, rows: int) -> bool:
        """Whether so many rows are all of the share. Where nobody planned it, its end must have been met."""
        return rows == self.rows and (self._drained or self._parts.rows is not None)

    def consumed(self, rows: int) -> list[Interval]:
        """Returns the intervals of the epoch sequence that the first `rows` rows handed out cover.

        Raises:
            ValueError: `rows` is negative or more than were handed out.
        """
        if rows > self.rows_taken:
            raise ValueError(f"consumed {rows} of {self.rows_taken} rows handed out")
        return leading(self._begun, rows)

    def take(self, rows: int) -> Columns:
        """Returns the next rows, in arrays of their own: exactly `rows`, fewer only at the share's end, then none.

        Raises:
            DataError: a value or file is refused.
            StorageError: a file system failed.
            ValueError: the feed is closed.
        """
        parts: list[Columns] = []
        missing = rows
        while missing:
            block = self._current()
            if block is None:
                self._drained = True
                break
            stop = min(self._block_taken + missing, block.rows)
            parts.append(block.copy(self._block_taken, stop))
            missing -= stop - self._block_taken
            self._block_taken = stop
        self.rows_taken += rows - missing
        return concat_rows(parts) if parts else empty_columns(self._spec.features)

    def close(self) -> None:
        """Stops reading and drops what was read ahead. A read that is under way ends by itself."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._parts.stop()
        self._block = None
        self._thread.join(_CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _current(self) -> Block | None:
        """Returns the block that has the next row, waiting for it; None at the end."""
        if self._block is not None:
            if self._block_taken < self._block.rows:
                return self._block
            self._spare.give(self._block.memory)
        self._block, self._block_taken = self._next_block(), 0
        if self._block is not None:
            self._begun.append((self._block.first_row, self._block.first_row + self._block.rows))
        return self._block

    def _next_block(self) -> Block | None:
        waiting_since = time.monotonic()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._finished or self._closed)
                if self._closed:
                    raise ValueError("the feed is closed")
                if not self._ready:
                    if self._error is not None:
                        raise self._error
                    return None
                ahead = self._ready.popleft()
                self._ready_nbytes -= ahead.nbytes
                self._changed.notify_all()
            return ahead.block.result()
        finally:
            self.wait_s += time.monotonic() - waiting_since

    def _run(self) -> None:
        """The reading thread."""
        error: BaseException | None = None
        try:
            self._read_all()
        except BaseException as caught:  # noqa: BLE001 - the end of a thread: `take` raises it where it is waited for
            error = caught
        finally:
            self._parts.close()
            self._assembler.shutdown(wait=False)
            with self._changed:
                self._error = error
                self._finished = True
                self._changed.notify_all()

    def _read_all(self) -> None:
        before: Future[Block] | None = None
        for part in self._parts:
            if not self._wait_for_room(part.rows * self._spec.row_nbytes):
                return
            groups = part.read()
            self.nbytes += part.nbytes
            self.local_nbytes += part.local_nbytes
            # One block is assembled beside the reading: there are never more than two of them in Arrow's form.
            if before is not None:
                before.result()
            before = self._assembler.submit(self._assemble, part, groups)
            nbytes = max(part.rows * self._spec.row_nbytes, sum(group.nbytes for group in groups))
            with self._changed:
                if self._closed:
                    return
                self._ready.append(ReadAhead(before, nbytes))
                self._ready_nbytes += nbytes
                self._changed.notify_all()

    def _wait_for_room(self, nbytes: int) -> bool:
        """Waits until so much may be read ahead, or nothing is; False when the feed is closed."""
        limit, max_ahead = self._spec.prefetch_bytes - nbytes, self._parts.max_ahead
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or not self._ready
                    or (self._ready_nbytes <= limit and (max_ahead is None or len(self._ready) < max_ahead))
                )
            )
            return not self._closed

    def _assemble(self, part: BlockPart, groups: Sequence[RowGroup]) -> Block:
        """The assembling thread: row groups into the rows of a part."""
        rows = sum(group.rows for group in groups)
        if part.draw is None:
            memory = self._spare.take(rows)
            columns = assemble(self._spec.features, groups, _first_rows(memory, rows))
            return Block(columns, memory, part.start, part.rows, part.first_row)
        scratch, memory = self._scratch.take(rows), self._spare.take(part.rows)
        columns = assemble(self._spec.features, groups, _first_rows(scratch, rows))
        # Every part of a block draws the permutation of the whole block, and takes its own share of it.
        order = part.draw().permutation(rows)[part.start : part.start + part.rows]
        permuted = take_rows(columns, order, _first_rows(memory, part.rows))
        self._scratch.give(scratch)
        return Block(permuted, memory, 0, part.rows, part.first_row)


def _first_rows(memory: Mapping[str, Array], rows: int) -> dict[str, Array]:
    return {key: array[:rows] for key, array in memory.items()}
