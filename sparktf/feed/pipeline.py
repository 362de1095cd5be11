"""The input pipeline of a node, for one stream in one epoch: read ahead, shuffle, batch.

Theory. The epoch is a fixed sequence of rows, cut into parts of shuffle blocks. Three stages, each a thread:

    read       row groups of a part -> Arrow tables            a thread of its own, ahead of need (`_run`)
    assemble   Arrow tables -> checked, packed NumPy arrays    an executor of one thread; at most two Arrow blocks
    hand out   permute a slab of batches, slice it             the caller's thread (`next_rows`, `take_now`)

1. Order. Blocks go through in the order of `parts`, and a block's permutation depends on (seed, epoch, block) alone:
   a position in the sequence is exact, and a resumed run, also on other nodes, continues with the very next row.
2. Back-pressure. Reading waits while `prefetch_bytes` wait (`_wait_for_room`), or `ahead_rows` (`_wait_for_need`: what
   is leased nobody else can train); one block may always be read, however large.
3. Parallelism. Arrow and NumPy release the GIL in their kernels, and no row is touched in Python, so that the stages
   overlap with each other and with TensorFlow. Slabs, not whole blocks, are permuted: they stay in the caches.
4. Memory. Batches are views of slabs; their memory returns to `SpareMemory` when the last view dies.
5. Errors of a stage are raised where its result is waited for. A row that fails a check is left out of the batches, and
   still covered by the cursor, so that counts add up.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from sparktf.feature import FeedLimits, FeedSpec
from sparktf.feed.arrays.aside import Aside, BadRow, Handed, too_many
from sparktf.feed.arrays.columns import Columns, concat_rows, empty_columns, row_count, slice_rows
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.memory import SpareMemory
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.blocks import Block, BlockPart, Parts
from sparktf.feed.sample import RowSample
from sparktf.knobs import KNOBS
from sparktf.sequence import Interval, leading

_DEFAULTS = FeedLimits()
_SLAB_ROWS = 4096
"""Rows permuted at a time, at least: small batches are slices of a slab, and both stay in the caches."""


class OnBadRows(Protocol):
    """A callback for rows that are left out."""

    def __call__(self, rows: Sequence[BadRow], *, too_many: bool) -> None:
        """Called with some rows; if they are too many, `next_rows` fails next."""


class ReadAhead(NamedTuple):
    """A block that is read and perhaps still being assembled; its rows include those that may be left out."""

    block: Future[Block]
    rows: int
    nbytes: int


class NodeFeed:
    """Reads a share in the background, and hands out batches of exact row counts.

    Attributes:
        rows_taken: Rows handed out so far; `consumed` turns them into a cursor.
        rows_aside: Rows left out so far because they fail a check: up to `FeedLimits.max_bad_rows`.
        wait_s: Seconds that `next_rows` has waited for rows.
        nbytes: Bytes read from files so far, of which `local_nbytes` lie on this node's own host.
    """

    def __init__(
        self,
        spec: FeedSpec,
        parts: Parts,
        memory: SpareMemory | None = None,
        *,
        limits: FeedLimits = _DEFAULTS,
        on_bad_rows: OnBadRows | None = None,
        sample: RowSample | None = None,
    ) -> None:
        """Starts to read.

        Args:
            memory: For `spec.features`; one feed after the other may use it.
            on_bad_rows: Called by `next_rows` with rows that are left out.
            sample: Offered all rows handed out.
        """
        self.rows_taken = 0
        self.rows_aside = 0
        self.wait_s = 0.0
        self.nbytes = 0
        self.local_nbytes = 0
        self._spec = spec
        self._limits = limits
        self._parts = parts
        self._drained = False
        self._begun: list[Handed] = []
        self._on_bad_rows = on_bad_rows
        self._sample = sample
        self._memory = memory or SpareMemory(spec.features)
        self._assembler = ThreadPoolExecutor(1, thread_name_prefix="assemble")
        self._block: Block | None = None
        self._block_taken = 0
        self._opened: deque[Block] = deque()  # behind `_block`
        self._slab: Columns = {}
        self._slab_left = 0
        self._changed = threading.Condition()
        # The following is shared with the reading thread, under the condition's lock.
        self._ready: deque[ReadAhead] = deque()
        self._ready_rows = 0
        self._ready_nbytes = 0
        self._dry = False
        self._finished = False
        self._closed = False
        self._error: BaseException | None = None
        self._why: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    @property
    def rows(self) -> int:
        """Rows of the share as far as known: all good rows of a planned share, else those handed out."""
        return self.rows_taken if self._parts.rows is None else self._parts.rows - self.rows_aside

    def is_all(self, rows: int) -> bool:
        """Whether the share has exactly this many rows; one that is not planned must have ended."""
        return rows == self.rows and (self._drained or self._parts.rows is not None)

    def consumed(self, rows: int) -> list[Interval]:
        """Returns the intervals of the epoch sequence that the first `rows` rows handed out cover.

        Rows that are left out are covered together with the good rows before them.

        Raises:
            ValueError: `rows` is negative or more than were handed out.
        """
        if not 0 <= rows <= self.rows_taken:
            raise ValueError(f"consumed {rows} of {self.rows_taken} rows handed out")
        covered, left = 0, rows
        for handed in self._begun:
            taken = min(left, handed.good)
            covered_here = handed.covered(taken)
            covered, left = covered + covered_here, left - taken
            if covered_here < handed.rows:
                break
        return leading(((handed.first_row, handed.first_row + handed.rows) for handed in self._begun), covered)

    def aside_within(self, rows: int) -> int:
        """Returns the number of rows left out within `consumed(rows)`."""
        return sum(stop - start for start, stop in self.consumed(rows)) - rows

    def next_rows(self, rows: int) -> Columns:
        """Returns the next rows: exactly `rows`, fewer only at the share's end, then none.

        The caller may keep them; while it does, the memory of their whole slab stays in use.

        Raises:
            DataError: a value or file is refused.
            StorageError: a file system failed.
            ValueError: the feed is closed.
        """
        parts: list[Columns] = []
        missing = rows
        while missing and self._has_slab(rows):
            n, start = min(missing, self._slab_left), row_count(self._slab) - self._slab_left
            parts.append(slice_rows(self._slab, start, start + n))
            missing -= n
            self._slab_left -= n
        self.rows_taken += rows - missing
        if self._sample is not None:
            for part in parts:
                self._sample.offer(part)
        if len(parts) > 1:
            return concat_rows(parts, self._memory.arrays(rows - missing))
        return parts[0] if parts else empty_columns(self._spec.features)

    def take_now(self, rows: int, wait_s: float, *, batch_rows: int) -> Columns:
        """Returns whole batches of the next rows, up to `rows`, as far as they are read.

        A partial batch comes last if no further rows are available at the moment. If no row comes, `is_drained` tells
        whether the share has ended.

        Args:
            wait_s: Time limit for the first batch.
            batch_rows: Rows of a batch, of which `rows` is a multiple.

        Raises:
            DataError, StorageError, ValueError: as `next_rows` does.
        """
        until_s = time.monotonic() + wait_s
        while self._in_hand < batch_rows and self._wait_for_block(until_s - time.monotonic()) and self._open_block():
            pass
        n = min(self._whole_batches(batch_rows), rows)
        return self.next_rows(n) if n else empty_columns(self._spec.features)

    @property
    def is_drained(self) -> bool:
        """Whether the share has ended, and nothing is left to hand out."""
        return self._drained and not self._in_hand

    @property
    def is_dry(self) -> bool:
        """Whether no rows are available at the moment; other nodes that hold the rest may give it back."""
        with self._changed:
            return (self._dry or self._finished) and not self._ready and not self._in_hand

    def handed_since(self, part: int) -> Sequence[Handed]:
        """Returns the parts begun so far, from number `part` on."""
        return self._begun[part:]

    def close(self) -> None:
        """Stops reading, and drops blocks read ahead. A read in progress ends by itself."""
        self.stop()
        self._block, self._slab, self._slab_left = None, {}, 0
        self._opened.clear()
        self._thread.join(KNOBS.feed_close_s)

    def stop(self, why: Exception | None = None) -> None:
        """Stops reading, without waiting; `why` is raised where rows are waited for. From any thread."""
        with self._changed:
            self._closed, self._why = True, self._why or why
            self._ready.clear()
            self._changed.notify_all()
        self._parts.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _has_slab(self, rows: int) -> bool:
        """Waits until a row is at hand; False at the end."""
        if self._slab_left:
            return True
        self._slab = {}  # frees its memory for the next slab
        while self._block is None or self._block_taken == self._block.rows:
            self._block = None
            if not self._opened and not self._open_block():
                return False
            self._block, self._block_taken = self._opened.popleft(), 0
        whole_batches = -(-_SLAB_ROWS // rows) * rows
        self._slab = self._block.slab(self._block_taken, whole_batches, self._memory)
        self._slab_left = row_count(self._slab)
        self._block_taken += self._slab_left
        return True

    @property
    def _in_hand(self) -> int:
        """Rows of opened blocks that are not handed out yet."""
        of_block = 0 if self._block is None else self._block.rows - self._block_taken
        return self._slab_left + of_block + sum(block.rows for block in self._opened)

    def _wait_for_block(self, wait_s: float) -> bool:
        """Waits until the next block can be opened without waiting, or the end; returns whether that came in time."""
        waiting_since = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._is_settled or (self._dry and self._in_hand), wait_s)
            settled = self._is_settled
        self.wait_s += time.monotonic() - waiting_since
        return settled

    @property
    def _is_settled(self) -> bool:
        if self._ready and not self._closed:
            return self._ready[0].block.done()
        return self._closed or self._finished

    def _whole_batches(self, batch_rows: int) -> int:
        """Returns the rows that are read, without a last partial batch that may still be filled up."""
        rows, more = self._in_hand, False
        with self._changed:
            for ahead in self._ready:
                if not ahead.block.done() or ahead.block.exception() is not None:
                    more = True
                    break
                rows += ahead.block.result().rows
            more = more or not (self._dry or self._finished)
        return rows - rows % batch_rows if more else rows

    def _open_block(self) -> bool:
        """Waits for the next block, and opens it; False at the end."""
        block = self._next_block()
        if block is None:
            self._drained = True
            return False
        self._begin(block)
        self._opened.append(block)
        return True

    def _begin(self, block: Block) -> None:
        self._begun.append(block.handed)
        self.rows_aside += block.handed.rows - block.rows
        is_over = self.rows_aside > self._limits.max_bad_rows
        if block.bad and self._on_bad_rows is not None:
            self._on_bad_rows(block.bad, too_many=is_over)
        if is_over:
            raise too_many(self.rows_aside, self._limits.max_bad_rows, block.bad)

    def _next_block(self) -> Block | None:
        waiting_since = time.monotonic()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._finished or self._closed)
                if self._closed:
                    raise self._why or ValueError("the feed is closed")
                if not self._ready:
                    if self._error is not None:
                        raise self._error
                    return None
                ahead = self._ready.popleft()
                self._ready_rows -= ahead.rows
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
        except BaseException as caught:  # noqa: BLE001 - the end of a thread: `next_rows` raises it where it is waited for
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
            if part is None:
                self._note_dry()
                continue
            self._dry = False
            if not self._wait_for_room(part.rows * self._spec.row_nbytes):
                return
            groups = part.read()
            self.nbytes += part.nbytes
            self.local_nbytes += part.local_nbytes
            # One block is assembled while the next is read: never more than two are in Arrow's form.
            if before is not None:
                before.result()
            before = self._assembler.submit(self._assemble, part, groups)
            nbytes = max(part.rows * self._spec.row_nbytes, sum(group.nbytes for group in groups))
            with self._changed:
                if self._closed:
                    return
                self._ready.append(ReadAhead(before, part.rows, nbytes))
                self._ready_rows += part.rows
                self._ready_nbytes += nbytes
                self._changed.notify_all()
            before.add_done_callback(self._note_assembled)
            self._wait_for_need()

    def _note_dry(self) -> None:
        with self._changed:
            self._dry = True
            self._changed.notify_all()

    def _note_assembled(self, _: Future[Block]) -> None:
        with self._changed:
            self._changed.notify_all()

    def _wait_for_need(self) -> None:
        """Waits until the next part may be asked for."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ready_rows < (self._parts.ahead_rows or math.inf))

    def _wait_for_room(self, nbytes: int) -> bool:
        """Waits until this much may be read ahead, or nothing is; False when the feed is closed."""
        limit, max_ahead = self._limits.prefetch_bytes - nbytes, self._parts.max_ahead
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
        limit = self._limits.max_bad_rows
        aside = Aside(rows, limit + 1) if limit else None
        columns = assemble(self._spec.features, groups, self._memory.arrays(rows), aside)
        # Each part of a block draws the whole block's permutation, and takes its own rows of it.
        order = None if part.draw is None else part.draw().permutation(rows)[part.start : part.start + part.rows]
        block = Block(columns, order, part.start, Handed(part.first_row, part.rows))
        return block if aside is None else block.without(aside)
