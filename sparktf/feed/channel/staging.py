"""The staging area of a node, where rows that Spark feeds wait for training.

A split (a partition of the DataFrame) counts once it is *sealed*: wholly here, by the number of rows that its feeder
sent. Until then a feeder may die, and another one may bring the split again; the first to end wins, and the rows of
others are dropped. So no row is lost or trained twice, in whatever order Spark computes the rows.

A sealed split is cut into shuffle blocks of `data.shuffle_rows` rows in the order in which they came. Positions in an
epoch are numbered by split: row i of split s, counted after the permutation of its block, is row `s * SPLIT_SPAN + i`
of the epoch sequence, so that a cursor does not depend on the number of rows in other splits.
"""

from __future__ import annotations

import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparktf.errors import RefusedError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.blocks import BlockPart
from sparktf.feed.channel.held import SPLIT_SPAN, Held, Queued, nbytes_of, within
from sparktf.feed.channel.staged_rows import Budget, StagedRows
from sparktf.results.result import NodeInput
from sparktf.sequence import Draw, Interval, Stream, generator, remaining

_WORTH_GIVING = 8192
"""Rows from which on the last waiting part is divided with another node: the whole block must be sent for it."""


class Staging:
    """The splits of one stream on one node, epoch after epoch; thread-safe.

    Feeders write from the data server's threads, the node's feed reads, and other nodes fetch.
    """

    def __init__(
        self, spec: FeedSpec, stream: Stream, *, block_rows: int, budget: Budget, room: int, folder: Path
    ) -> None:
        """Holds nothing yet.

        Args:
            block_rows: Rows of a shuffle block.
            budget: Memory for rows; the rest is written to `folder`.
            room: Bytes that may wait for training before feeders of further splits must wait.
        """
        self._spec = spec
        self._stream = stream
        self._permutes = spec.shuffle and stream is Stream.TRAIN
        self._block_rows = block_rows
        self._budget = budget
        self._room = room
        self._folder = folder
        self._files = 0
        self._changed = threading.Condition()
        # The following is shared, under the condition's lock.
        self._epoch = -1
        self._came = NodeInput()
        self._keep = False
        self._done: Sequence[Interval] = ()
        self._splits: dict[int, Held] = {}
        self._turns: dict[int, int] = {}
        self._moves = 0
        self._queue: deque[Queued] = deque()
        self._waiting_nbytes = 0
        self._fed_s = 0.0

    # ---- epochs ----

    def begin(self, epoch: int, done: Sequence[Interval], *, keep: bool, again: bool) -> None:
        """Begins an epoch.

        Args:
            done: Trained intervals of the epoch sequence.
            keep: Keep the rows for later epochs.
            again: Train on the rows that were kept; else drop them, and feeders bring rows.
        """
        with self._changed:
            self._epoch, self._done, self._keep = epoch, tuple(done), keep
            self._came = NodeInput()
            self._fed_s = time.monotonic()
            self._turns.clear()
            self._queue.clear()
            self._waiting_nbytes = 0
            if again:
                for split, held in sorted(self._splits.items()):
                    held.queued = 0
                    self._enqueue(split, held, self._done)
                if self._permutes:
                    order = generator(Draw.BLOCK_ORDER, self._spec.seed, epoch).permutation(len(self._queue))
                    self._queue = deque([self._queue[i] for i in order])
            else:
                self._drop_all()
            self._changed.notify_all()

    @property
    def epoch(self) -> int:
        """The current epoch, -1 before the first."""
        with self._changed:
            return self._epoch

    @property
    def moves(self) -> int:
        """How many parts have joined or left the queue."""
        with self._changed:
            return self._moves

    @property
    def starved_s(self) -> float:
        """Seconds since a feeder last brought something in this epoch."""
        with self._changed:
            return time.monotonic() - self._fed_s

    @property
    def input(self) -> NodeInput:
        """The input of this epoch, and the bytes held now."""
        with self._changed:
            disk = sum(held.data.spilled_nbytes for held in self._splits.values())
            memory = sum(held.data.nbytes for held in self._splits.values()) - disk
            return self._came.model_copy(update={"memory_nbytes": memory, "disk_nbytes": disk})

    # ---- feeders ----

    def admit(self, epoch: int, split: int, turn: int = 0) -> int | None:
        """Waits until there is room for another split; returns the rows of the split if it is here already, else None.

        A split that has begun may always end, since the next rows to train may be in it.

        Args:
            turn: See `Span`: in a later one, rows that were not kept must come again.

        Raises:
            RefusedError: the epoch is over.
        """
        since_s = time.monotonic()
        with self._changed:
            self._changed.wait_for(
                lambda: self._epoch > epoch or (self._epoch == epoch and (split in self._splits or self._has_room()))
            )
            if self._epoch > epoch:
                raise RefusedError(f"epoch {epoch} of {self._stream} is over")
            self._came += NodeInput(feeders_wait_s=time.monotonic() - since_s)
            held = self._splits.get(split)
            if held is not None and not held.kept and turn > self._turns.get(split, 0):
                held = None
                self._splits.pop(split).data.release()
            return None if held is None else held.data.rows

    def queue_again(self, epoch: int, split: int, turn: int, done: Sequence[Interval]) -> None:
        """Queues the untrained rows of a kept split again, since they were lost elsewhere; `done` are trained."""
        with self._changed:
            held = self._splits.get(split)
            if self._epoch == epoch and held is not None and turn > self._turns.get(split, 0):
                self._turns[split] = turn
                self._enqueue(split, held, done)
                self._changed.notify_all()

    def new_rows(self) -> StagedRows:
        """Returns a place for a feeder's rows until they are sealed."""
        with self._changed:
            self._files += 1
            return StagedRows(self._budget, self._folder / f"{self._stream}-{self._files}.arrow")

    def end(self, epoch: int, split: int, rows: StagedRows) -> int:
        """Ends the writing of a whole split, before `seal`; returns its rows, or those of one that came before.

        Raises:
            RefusedError: the epoch is over.
            OSError: the file of rows beyond the budget cannot be written.
        """
        rows.seal()
        with self._changed:
            if self._epoch != epoch:
                raise RefusedError(f"epoch {epoch} of {self._stream} is over")
            known = self._splits.get(split)
            return rows.rows if known is None else known.data.rows

    def seal(
        self,
        epoch: int,
        split: int,
        rows: StagedRows,
        wire: str,
        *,
        turn: int = 0,
        done: Sequence[Interval] | None = None,
    ) -> int:
        """Takes a whole split, unless it is here already; returns the rows of the split that is kept.

        Args:
            wire: "unix" if the feeder runs on this node's executor, else "tcp".
            turn: See `Span`.
            done: Intervals of it that are trained. Default: those that the epoch began with.

        Raises:
            RefusedError: the epoch is over.
            OSError: the file of rows beyond the budget cannot be written.
        """
        try:
            rows.seal()
        except OSError:
            rows.release()
            raise
        with self._changed:
            over, known = self._epoch != epoch, self._splits.get(split)
            if not over and known is None:
                held = Held(rows, kept=self._keep)
                self._splits[split] = held
                self._turns[split] = turn
                self._fed_s = time.monotonic()
                self._count(rows, wire)
                self._enqueue(split, held, self._done if done is None else done)
                self._changed.notify_all()
                return rows.rows
        rows.release()
        if over or known is None:
            raise RefusedError(f"epoch {epoch} of {self._stream} is over")
        return known.data.rows

    # ---- the node's own feed ----

    def next(self, wait_s: float, epoch: int | None = None) -> Queued | None:
        """Waits for the next part of an epoch, by default the current one; None if none comes in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue, wait_s)
            return self._pop() if self._queue and epoch in (None, self._epoch) else None

    def part(self, queued: Queued) -> BlockPart:
        """Returns a part for the pipeline."""
        return BlockPart(
            rows=queued.stop - queued.start,
            first_row=queued.split * SPLIT_SPAN + queued.first_row + queued.start,
            start=queued.start,
            draw=self._draw(self.epoch, queued) if self._permutes else None,
            read=partial(self._read, queued),
        )

    # ---- other nodes ----

    def give(self, epoch: int) -> tuple[Queued, list[pa.RecordBatch]] | None:
        """Gives a part, with the rows of its block, to a node that has run dry; None if there is none.

        That is the last part, or half of a single one. A small single part stays, unless feeders wait for room here:
        the rows that the other node waits for may be behind them.
        """
        with self._changed:
            if self._epoch != epoch or not self._queue:
                return None
            is_small = self._queue[-1].stop - self._queue[-1].start < _WORTH_GIVING
            if is_small and len(self._queue) == 1 and self._has_room():
                return None
            last = self._pop(last=True)
            middle = (last.start + last.stop) // 2
            if not self._queue and not is_small:
                self._push(last._replace(stop=middle))
                last = last._replace(start=middle)
            self._came += NodeInput(given=last.stop - last.start)
        batches = last.held.read(last.first_row, last.rows)
        self._read_done(last.held)
        return last, batches

    def accept(self, split: int, first_row: int, start: int, stop: int, data: StagedRows) -> None:
        """Takes a part from another node, with the rows of its block, which are dropped once trained."""
        data.seal()
        with self._changed:
            held = Held(data, offset=first_row)
            self._came += NodeInput(rows={"peer": stop - start})
            self._push(Queued(split, first_row, data.rows, start, stop, held))
            self._changed.notify_all()

    # ---- under the lock ----

    def _has_room(self) -> bool:
        return self._waiting_nbytes < self._room

    def _enqueue(self, split: int, held: Held, done: Sequence[Interval]) -> None:
        """Queues the untrained rows of a sealed split, block by block."""
        todo = remaining(held.data.rows, within(done, split))
        for first in range(0, held.data.rows, self._block_rows):
            last = min(first + self._block_rows, held.data.rows)
            for start, stop in todo:
                if start < last and stop > first:
                    cut = max(start, first) - first, min(stop, last) - first
                    self._push(Queued(split, first, last - first, *cut, held))
        if not held.queued and not held.kept:
            held.data.release()

    def _push(self, queued: Queued) -> None:
        queued.held.queued += 1
        self._moves += 1
        self._waiting_nbytes += nbytes_of(queued)
        self._queue.append(queued)

    def _pop(self, *, last: bool = False) -> Queued:
        queued = self._queue.pop() if last else self._queue.popleft()
        self._moves += 1
        self._waiting_nbytes -= nbytes_of(queued)
        self._changed.notify_all()
        return queued

    def _count(self, data: StagedRows, wire: str) -> None:
        self._came += NodeInput(
            rows={wire: data.rows},
            nbytes=data.nbytes,
            local_nbytes=data.nbytes if wire == "unix" else 0,
            spilled_nbytes=data.spilled_nbytes,
        )

    def _drop_all(self) -> None:
        for held in self._splits.values():
            held.data.release()
        self._splits.clear()

    # ---- without it ----

    def _read(self, queued: Queued) -> list[RowGroup]:
        """Returns the rows that a part needs: its whole block, which `BlockPart` then permutes."""
        batches = queued.held.read(queued.first_row, queued.rows)
        self._read_done(queued.held)
        groups, row = [], queued.first_row
        for batch in batches:
            groups.append(
                RowGroup(
                    origin=f"partition {queued.split} of the data",
                    number=partial(operator.add, row),
                    columns={name: pa.chunked_array([batch.column(name)]) for name in batch.schema.names},
                    rows=batch.num_rows,
                    fill_null=self._spec.fill_null,
                )
            )
            row += batch.num_rows
        return groups

    def _read_done(self, held: Held) -> None:
        with self._changed:
            held.queued -= 1
            if not held.queued and not held.kept:
                held.data.release()

    def _draw(self, epoch: int, queued: Queued) -> Callable[[], np.random.Generator]:
        return partial(
            generator, Draw.BLOCK_ROWS, self._spec.seed, epoch, queued.split, queued.first_row // self._block_rows
        )
