"""The synchronous training loop of one node.

All nodes run the same calls in the same order. Before each call into TensorFlow each tells the others its rows of every
update of the call, and what they cover of the epoch (`book`); if there are none, the epoch ends on all nodes at once.
Other decisions that must be alike everywhere (a checkpoint by time, the size of the next call) travel with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparktf.feed.arrays.columns import row_count
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.results.keep import EpochLoss
from sparktf.sequence import Interval
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.tensors import to_tensors
from sparktf.trainer.node.position import Done, Extent, Position
from sparktf.trainer.sync.book import BegunParts, Book, OwnShare, SharedCall, Word
from sparktf.trainer.sync.regroupings import Where
from sparktf.trainer.sync.update_meter import UpdateMeter
from sparktf.wire.regrouping import RegroupedError

RowCounts = npt.NDArray[np.int32]


class Feed(BegunParts, Protocol):
    """The rows of an epoch; see `NodeFeed`."""

    def is_all(self, rows: int) -> bool:
        """Whether the feed has exactly this many rows for the epoch."""

    def next_rows(self, rows: int) -> Any:
        """Returns the next rows, fewer than asked for only at the end of the epoch."""


class Updates(Protocol):
    """Makes updates; see `UpdateFunction`."""

    @property
    def losses(self) -> Sequence[float]:
        """The loss of each update of the present call as far as they are made, where that may be interrupted."""

    def __call__(self, rows: Any, counts: Any, totals: Any) -> float:
        """Makes one for each entry of `totals`; returns their mean loss."""


class LoopSettings(NamedTuple):
    """Sizes of the loop, the same on every node."""

    devices: int  # Replicas of a node
    batch_size: int
    steps_per_call: int
    extent: Extent


class Wish(NamedTuple):
    """A node's wishes before a call: a wish of one node is done by all. Each is asked for once."""

    save: bool  # A checkpoint by time, or by the driver's order
    end: bool  # The end of training
    join: bool = False  # A new generation, which takes in those that wait to join


class LoopCalls(NamedTuple):
    """The functions that a loop calls of its owner's."""

    steps_to_save: Callable[[int], int | None]  # From a step to a checkpoint that is due by steps, alike on every node
    wish: Callable[[int], Wish]  # This node's wishes at a step
    on_call: Callable[[], None]  # After every call
    save: Callable[[], None]  # Writes a checkpoint of the position


class LoopState(Message):
    """The training as all members know it: the position, and the book of the epoch."""

    epoch: int
    step: int
    loss: float | None
    epoch_loss: EpochLoss
    done: tuple[Interval, ...]
    rows_aside: int
    call_steps: int  # Updates of the next call: who brings rows for fewer has more left than the others in the end


class Agreement(NamedTuple):
    """The outcome of what all nodes have told, the same on each."""

    block: SharedCall
    save: bool
    end: bool
    join: bool
    next_steps: int


class SyncLoop:
    """Trains epochs; the caller owns model, feed and checkpoints.

    Attributes:
        position: The training position, changed by this loop only.
    """

    def __init__(
        self,
        settings: LoopSettings,
        update: Updates,
        exchange: Exchange,
        *,
        meter: UpdateMeter,
        calls: LoopCalls,
        position: Position,
    ) -> None:
        """Makes a loop that begins at a position."""
        self._settings = settings
        self._update = update
        self._exchange = exchange
        self._owner = calls
        self._meter = meter
        self._book = Book(settings.batch_size, exchange.members, settings.steps_per_call)
        self._share = self._book.shares[exchange.rank]
        self._generation = exchange.generation
        self._block: SharedCall | None = None  # The one that is being trained
        self._wished: Wish | None = None  # What was asked for and not agreed on
        self._call_steps = min(2, settings.steps_per_call)
        self._measured_steps = self._call_steps
        self._calls = 0
        self.position = position

    def begin_epoch(self) -> int | None:
        """Begins the next epoch; returns its number, None if training is complete."""
        epoch = self._settings.extent.epoch_after(self.position)
        if epoch is not None:
            if epoch != self.position.epoch:  # else it is the rest of one
                self._book.begin()
            self.position = self.position.begun(epoch)
        return epoch

    @property
    def done(self) -> Done:
        """The rows that all nodes have trained, since the attempt began, of the epoch that a checkpoint continues."""
        return Done(of_all=True) if self.position.is_complete else self._book.done

    def where(self, was_given: bool) -> Where:
        """Returns the rows that all members have trained.

        Args:
            was_given: The operation that this one is in counts as made.
        """
        made = 0 if self._block is None else len(self._update.losses) + was_given
        done = self._book.done if self._block is None else self._book.done_within(self._block, made)
        return Where(self.position.epoch, self.position.is_complete, done, self.position.step + made)

    @property
    def state(self) -> LoopState:
        """The state that a member takes over which joins the others."""
        at, done = self.position, self._book.done
        return LoopState(
            epoch=at.epoch,
            step=at.step,
            loss=at.loss,
            epoch_loss=at.epoch_loss,
            done=tuple(done.intervals),
            rows_aside=done.rows_aside,
            call_steps=self._call_steps,
        )

    def take(self, state: LoopState) -> None:
        """Takes over another member's state."""
        self.position = Position(state.epoch, state.step, loss=state.loss, epoch_loss=state.epoch_loss)
        self._book.take(state.done, state.rows_aside)
        self._call_steps = self._measured_steps = state.call_steps

    def run_epoch(self, feed: Feed) -> None:
        """Trains on all rows of the feed, together with the other nodes on theirs.

        Raises:
            RegroupedError: a node is lost. The other ones call it again, with feeds of what is left.
        """
        if self._generation != self._exchange.generation:
            self._generation = self._exchange.generation
            self._book.take_members(self._exchange.members)
            self._share = self._book.shares[self._exchange.rank]
            self.position = self.position.begun(self.position.epoch)
        # A run that ends inside an epoch may leave rows over, or may have trained the last one just now.
        complete = self._train(feed) or self._is_dry(feed)
        self.position = self.position.ended(complete=complete)

    def _is_dry(self, feed: Feed) -> bool:
        """Whether no node has a row of the epoch left."""
        [left] = self._exchange.sum([np.array(not feed.is_all(self.position.rows), np.int64)])
        return not left

    def _train(self, feed: Feed) -> bool:
        """Trains until the epoch or the run ends; returns whether no node has rows to train."""
        brought = OwnShare(feed)
        while not self._settings.extent.is_exhausted(self.position.step):
            if self._generation != self._exchange.generation:
                # A node was lost while a checkpoint was saved: nobody feeds this one's rows any more.
                raise RegroupedError(f"generation {self._generation} of the gang is over")
            self._meter.begin()
            columns = feed.next_rows(self._share * self._steps_of_call())
            counts = self._counts(row_count(columns))
            each = counts.tolist()
            word = Word.of(each, brought.take(each))
            self._meter.took_rows()
            agreed = self._agree(word)
            self._meter.agreed()
            totals = agreed.block.totals
            if agreed.save and not agreed.end:
                self._owner.save()
            if agreed.join and len(totals) and not agreed.end:
                raise RegroupedError("others join the gang")
            if not len(totals):
                self._book.add(agreed.block, 0)
            if not len(totals) or agreed.end:
                return not len(totals)
            self._run_call(columns, counts, agreed)
            if self._owner.steps_to_save(self.position.step - 1) == 1:
                self._owner.save()
        return False

    def _steps_of_call(self) -> int:
        """Returns the updates of the next call, which ends where a checkpoint by steps is due, or at `max_steps`."""
        step = self.position.step
        limits = [self._call_steps, self._owner.steps_to_save(step), self._settings.extent.steps_left(step)]
        return min(limit for limit in limits if limit is not None)

    def _counts(self, rows: int) -> RowCounts:
        """Returns this node's rows in each update of the call, int32 [steps_per_call]: full shares, rest, zeros."""
        ends = np.minimum(np.arange(1, self._settings.steps_per_call + 1) * self._share, rows)
        return np.diff(ends, prepend=0).astype(np.int32)

    def _agree(self, word: Word) -> Agreement:
        wish = self._wished or self._owner.wish(self.position.step)
        self._wished = wish
        next_steps = self._measured_steps if self._exchange.leads else 0
        told = word._replace(save=wish.save, end=wish.end, join=wish.join, next_steps=next_steps)
        words = [Word.unpacked(sent) for sent in self._exchange.gather(told.packed())]
        self._wished = None
        return Agreement(
            self._book.block(words),
            any(word.save for word in words),
            any(word.end for word in words),
            any(word.join for word in words),
            max(word.next_steps for word in words),
        )

    def _run_call(self, columns: Any, counts: RowCounts, agreed: Agreement) -> None:
        started = time.perf_counter()
        self._meter.call()
        totals = agreed.block.totals
        devices = np.arange(self._settings.devices + 1)
        live = counts[: len(totals), None]
        per_device = np.diff(live * devices // self._settings.devices, axis=1).astype(np.int32)
        self._block = agreed.block
        try:
            loss = self._update(to_tensors(columns), per_device, totals)
        except RegroupedError:
            self._take(agreed.block, counts, self._update.losses)
            raise
        finally:
            self._block = None
        self._meter.made(len(totals), int(counts[: len(totals)].sum()))
        self._measure(len(totals), time.perf_counter() - started)
        self._call_steps = agreed.next_steps
        self._count(agreed.block, counts, len(totals), loss)
        self._owner.on_call()

    def _take(self, block: SharedCall, counts: RowCounts, losses: Sequence[float]) -> None:
        """Counts the updates of a call that was interrupted, by the loss of each."""
        made = len(losses)
        if made:
            self._count(block, counts, made, float(np.average(losses, weights=block.totals[:made])))

    def _count(self, block: SharedCall, counts: RowCounts, updates: int, loss: float) -> None:
        self._book.add(block, updates)
        step, rows = self.position.step + updates, int(counts[:updates].sum())
        advanced = self.position.advanced(step=step, rows=rows, loss=loss)
        self.position = advanced.learned(loss, int(block.totals[:updates].sum()))

    def _measure(self, steps: int, seconds: float) -> None:
        """Proposes the size of the next call by the time of this one, unless it was the first, which also traces."""
        self._calls += 1
        if self._calls > 1:
            wanted = int(KNOBS.call_s * steps / max(seconds, 1e-6))
            self._measured_steps = max(1, min(self._settings.steps_per_call, wanted, 4 * steps))
