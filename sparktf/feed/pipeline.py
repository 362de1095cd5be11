"""A node's input of one stream in one epoch: shuffle blocks read ahead, permuted, and cut into batches.

One thread reads and decodes row groups, a second one checks, packs and permutes them, the caller's copies batches out.
None of the three holds the interpreter's lock for long.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from sparktf.feature import FeedSpec
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
from sparktf.feed.parquet import OpenStorage, SplitReader, SplitSequence
from sparktf.plan import Assignment, Draw, Piece, Split, Stream, generator
from sparktf.storage.local import LocalStorage

_CLOSE_TIMEOUT_S = 5.0
_SPARE_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a piece.

    Attributes:
        columns: The rows, in the order in which they are trained.
        memory: What the numeric columns lie in, to be used again.
        start: The piece's first row in them.
        rows: Rows of the piece.
    """

    columns: Columns
    memory: Mapping[str, Array]
    start: int
    rows: int

    def copy(self, start: int, stop: int) -> Columns:
        """Returns rows `[start, stop)` of the piece."""
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
    """Reads an `Assignment` beside the caller and hands out batches of exact row counts.

    Attributes:
        rows_taken: Rows handed out so far; `Assignment.consumed` turns them into a cursor.
        wait_s: Seconds that `take` has waited for rows.
        nbytes: Bytes read from files so far, of which `local_nbytes` lie on this node's own host.
    """

    def __init__(
        self, spec: FeedSpec, assignment: Assignment, open_storage: OpenStorage, *, use_threads: bool = False
    ) -> None:
        """Starts to read.

        Args:
            use_threads: Let Arrow decode columns on all its threads; on few cores that takes them from the other work.
        """
        self.rows_taken = 0
        self.wait_s = 0.0
        self.nbytes = 0
        self.local_nbytes = 0
        self._spec = spec
        self._assignment = assignment
        self._permutes = spec.shuffle and assignment.stream is Stream.TRAIN
        first = next((split for piece in assignment.pieces for split in piece.splits), None)
        self._groups = SplitSequence(
            (split for piece in assignment.pieces for split in self._splits_of(piece)[0]),
            partial(SplitReader, spec, open_storage, use_threads=use_threads),
            is_remote=first is not None and not isinstance(open_storage(first.path), LocalStorage),
        )
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
        self._thread = threading.Thread(target=self._run, name=f"feed-{assignment.stream}", daemon=True)
        self._thread.start()

    @property
    def rows(self) -> int:
        """Rows of the whole assignment."""
        return self._assignment.rows

    def take(self, rows: int) -> Columns:
        """Returns the next rows, in arrays of their own: exactly `rows`, fewer only at the assignment's end, then none.

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
            self._groups.close()
            self._assembler.shutdown(wait=False)
            with self._changed:
                self._error = error
                self._finished = True
                self._changed.notify_all()

    def _read_all(self) -> None:
        before: Future[Block] | None = None
        for piece in self._assignment.pieces:
            if not self._wait_for_room(piece.rows * self._spec.row_nbytes):
                return
            splits, start = self._splits_of(piece)
            groups = list(itertools.islice(self._groups, len(splits)))
            self.nbytes += sum(split.nbytes for split in splits)
            self.local_nbytes += sum(split.local_nbytes for split in splits)
            # One block is assembled beside the reading: there are never more than two of them in Arrow's form.
            if before is not None:
                before.result()
            before = self._assembler.submit(self._assemble, piece, groups, start)
            nbytes = max(piece.rows * self._spec.row_nbytes, sum(group.nbytes for group in groups))
            with self._changed:
                if self._closed:
                    return
                self._ready.append(ReadAhead(before, nbytes))
                self._ready_nbytes += nbytes
                self._changed.notify_all()

    def _splits_of(self, piece: Piece) -> tuple[Sequence[Split], int]:
        """Returns the splits to read for a piece, and where in their rows the piece starts if it is not permuted."""
        return (piece.splits, 0) if self._permutes else _touched(piece)

    def _wait_for_room(self, nbytes: int) -> bool:
        """Waits until so much may be read ahead, or nothing is; False when the feed is closed."""
        limit = self._spec.prefetch_bytes - nbytes
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._ready or self._ready_nbytes <= limit)
            return not self._closed

    def _assemble(self, piece: Piece, groups: Sequence[RowGroup], start: int) -> Block:
        """The assembling thread: row groups into the rows of a piece, of which `start` is the first if unpermuted."""
        rows = sum(group.rows for group in groups)
        if not self._permutes:
            memory = self._spare.take(rows)
            columns = assemble(self._spec.features, groups, _first_rows(memory, rows))
            return Block(columns, memory, start, piece.rows)
        scratch, memory = self._scratch.take(rows), self._spare.take(piece.rows)
        columns = assemble(self._spec.features, groups, _first_rows(scratch, rows))
        draw = generator(Draw.BLOCK_ROWS, self._spec.seed, self._assignment.epoch, piece.block)
        # Every part of a block draws the permutation of the whole block, and takes its own share of it.
        order = draw.permutation(rows)[piece.start : piece.stop]
        permuted = take_rows(columns, order, _first_rows(memory, piece.rows))
        self._scratch.give(scratch)
        return Block(permuted, memory, 0, piece.rows)


def _first_rows(memory: Mapping[str, Array], rows: int) -> dict[str, Array]:
    return {key: array[:rows] for key, array in memory.items()}


def _touched(piece: Piece) -> tuple[list[Split], int]:
    """Returns the splits that hold rows of an unpermuted piece, and where in them the piece starts."""
    ends = np.cumsum([split.rows for split in piece.splits])
    first = int(np.searchsorted(ends, piece.start, side="right"))
    last = int(np.searchsorted(ends, piece.stop, side="left"))
    before = int(ends[first - 1]) if first else 0
    return list(itertools.islice(piece.splits, first, last + 1)), piece.start - before
