"""The staging area of a node, where rows that Spark feeds wait for training.

A split (a partition of the DataFrame) counts once it is *sealed*: wholly here, by the number of rows that its feeder
sent. Until then a feeder may die, and another one may bring the split again; the first to end wins, and the rows of
others are dropped. So no row is lost or trained twice, in whatever order Spark computes the rows.

A sealed split is cut into shuffle blocks of `data.shuffle_rows` rows in the order in which they came. Positions in an
epoch are numbered by split: row i of split s, counted after the permutation of its block, is row `s * SPLIT_SPAN + i`
of the epoch sequence, so that a cursor does not depend on the number of rows in other splits.
"""

from __future__ import annotations

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
from sparktf.feed.channel.held import SPLIT_SPAN, Held, Queued, groups_of, nbytes_of, within
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
        self._at = (-1, 1)  # Epoch, and generation of the gang
        self._came = NodeInput()
        self._keep = False
        self._done: Sequence[Interval] = ()
        self._splits: dict[int, Held] = {}
        self._turns: dict[int, int] = {}
        self._unoffered: set[int] = set()  # Of the splits, those that came to an earlier generation
        self._moves = 0
        self._queue: deque[Queued] = deque()
        self._waiting_nbytes = 0
        self._fed_s = 0.0

    # ---- epochs ----

    def begin(
        self,
        epoch: int,
        done: Sequence[Interval],
        *,
        keep: bool,
        again: bool,
        generation: int = 1,
        rest: bool = False,
    ) -> None:
        """Begins an epoch, or what an earlier generation of the gang has left of it.

        Args:
            done: Trained intervals of the epoch sequence.
            keep: Keep the rows for later epochs.
            again: Train on the rows that were kept; else drop them, and feeders bring rows.
            generation: Feeders and nodes of another one are refused.
            rest: Splits that are still here stay, and wait until a feeder offers them.
        """
        with self._changed:
            before, self._at = self._at, (epoch, generation)
            self._done, self._keep = tuple(done), keep
            self._fed_s = time.monotonic()
            self._turns.clear()
            self._unoffered.clear()
            self._drop_queue()
            if before[0] != epoch:
                self._came = NodeInput()
            if rest:
                self._put_by(is_same=before[0] == epoch)
            elif again:
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
    def at(self) -> tuple[int, int]:
        """The current epoch, -1 before the first, and the generation of the gang."""
        with self._changed:
            return self._at

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

    def admit(self, epoch: int, split: int, turn: int = 0, generation: int = 1) -> int | None:
        """Waits until there is room for another split; returns the rows of the split if it is here already, else None.

        A split that has begun may always end, since the next rows to train may be in it.

        Args:
            turn: See `Span`: in a later one, rows that were not kept must come again.
            generation: Likewise.

        Raises:
            RefusedError: the epoch is over.
        """
        since_s, at = time.monotonic(), (epoch, generation)
        with self._changed:
            self._changed.wait_for(
                lambda: self._at > at or (self._at == at and (split in self._splits or self._has_room()))
            )
            self._check(at)
            self._came += NodeInput(feeders_wait_s=time.monotonic() - since_s)
            held = self._splits.get(split)
            if held is not None and not held.kept and turn > self._turns.get(split, 0):
                held = None
                self._splits.pop(split).data.release()
            return None if held is None else held.data.rows

    def queue_again(self, epoch: int, split: int, turn: int, done: Sequence[Interval], *, generation: int = 1) -> None:
        """Queues the untrained rows of a split that is here and offered again: see `Span` for `turn` and `generation`.

        In a later turn that is one that was kept, since rows of it were lost elsewhere, and `done` are trained.
        """
        with self._changed:
            held = self._splits.get(split)
            if self._at != (epoch, generation) or held is None:
                return
            if turn > self._turns.get(split, 0):
                self._turns[split] = turn
            elif split in self._unoffered:
                self._unoffered.remove(split)
                done = self._done
            else:
                return
            self._enqueue(split, held, done)
            self._changed.notify_all()

    def new_rows(self) -> StagedRows:
        """Returns a place for a feeder's rows until they are sealed."""
        with self._changed:
            self._files += 1
            return StagedRows(self._budget, self._folder / f"{self._stream}-{self._files}.arrow")

    def end(self, epoch: int, split: int, rows: StagedRows, *, generation: int = 1) -> int:
        """Ends the writing of a whole split, before `seal`; returns its rows, or those of one that came before.

        Raises:
            RefusedError: the epoch is over.
            OSError: the file of rows beyond the budget cannot be written.
        """
        rows.seal()
        with self._changed:
            self._check((epoch, generation))
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
        generation: int = 1,
        done: Sequence[Interval] | None = None,
    ) -> int:
        """Takes a whole split, unless it is here already; returns the rows of the split that is kept.

        Args:
            wire: "unix" if the feeder runs on this node's executor, else "tcp".
            turn: See `Span`.
            generation: Likewise.
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
            over, known = self._at != (epoch, generation), self._splits.get(split)
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

    def next(self, wait_s: float, at: tuple[int, int] | None = None) -> Queued | None:
        """Waits for the next part of an epoch for a generation, by default the current; None if none comes in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue, wait_s)
            return self._pop() if self._queue and at in (None, self._at) else None

    def part(self, queued: Queued) -> BlockPart:
        """Returns a part for the pipeline."""
        return BlockPart(
            rows=queued.stop - queued.start,
            first_row=queued.split * SPLIT_SPAN + queued.first_row + queued.start,
            start=queued.start,
            draw=self._draw(self.at[0], queued) if self._permutes else None,
            read=partial(self._read, queued),
        )

    # ---- other nodes ----

    def give(self, epoch: int, generation: int = 1) -> tuple[Queued, list[pa.RecordBatch]] | None:
        """Gives a part, with the rows of its block, to a node that has run dry; None if there is none.

        That is the last part, or half of a single one. A small single part stays, unless feeders wait for room here:
        the rows that the other node waits for may be behind them.
        """
        with self._changed:
            if self._at != (epoch, generation) or not self._queue:
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

    def accept(
        self, split: int, first_row: int, start: int, stop: int, data: StagedRows, at: tuple[int, int] | None = None
    ) -> None:
        """Takes a part from another node, with the rows of its block, which are dropped once trained.

        Args:
            at: The epoch and generation that it was asked for in; of another one it is dropped. Default: the current.
        """
        data.seal()
        with self._changed:
            if at not in (None, self._at):
                data.release()
                return
            held = Held(data, offset=first_row)
            self._came += NodeInput(rows={"peer": stop - start})
            self._push(Queued(split, first_row, data.rows, start, stop, held))
            self._changed.notify_all()

    # ---- under the lock ----

    def _check(self, at: tuple[int, int]) -> None:
        if self._at != at:
            raise RefusedError(f"epoch {at[0]} of {self._stream} is over")

    def _put_by(self, *, is_same: bool) -> None:
        """Puts the splits by that are still here, until they are offered; `is_same`: they came for this very epoch."""
        before, self._splits = self._splits, {}
        for split, held in before.items():
            if held.kept or (is_same and held.queued):
                # Whoever still reads the old one is not to release the rows.
                held.kept = True
                self._splits[split] = Held(held.data, kept=self._keep)
                self._unoffered.add(split)
            else:
                held.data.release()

    def _drop_queue(self) -> None:
        """Empties the queue; blocks that other nodes gave are gone with it."""
        own = {id(held) for held in self._splits.values()}
        for queued in self._queue:
            if id(queued.held) not in own:
                queued.held.data.release()
        self._queue.clear()
        self._waiting_nbytes = 0

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
        return groups_of(queued, batches, self._spec)

    def _read_done(self, held: Held) -> None:
        with self._changed:
            held.queued -= 1
            if not held.queued and not held.kept:
                held.data.release()

    def _draw(self, epoch: int, queued: Queued) -> Callable[[], np.random.Generator]:
        return partial(
            generator, Draw.BLOCK_ROWS, self._spec.seed, epoch, queued.split, queued.first_row // self._block_rows
        )
