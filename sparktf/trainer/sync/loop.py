"""The synchronous training loop of one node.

All nodes run the same calls in the same order. Before each call into TensorFlow each tells the others
its rows of every update of the call; if there are none, the epoch ends on all nodes at once. Other decisions that must
be alike everywhere (a checkpoint by time, the size of the next call) travel with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparktf.feed.arrays.columns import row_count
from sparktf.knobs import KNOBS
from sparktf.sequence import batch_shares
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.tensors import to_tensors
from sparktf.trainer.node.position import Extent, Position


class Feed(Protocol):
    """The rows of an epoch; see `NodeFeed`."""

    def is_all(self, rows: int) -> bool:
        """Whether the feed has exactly this many rows for the epoch."""

    def next_rows(self, rows: int) -> Any:
        """Returns the next rows, fewer than asked for only at the end of the epoch."""


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


class Agreement(NamedTuple):
    """The outcome of what all nodes have told, the same on each."""

    totals: np.ndarray[Any, np.dtype[np.int32]]
    save: bool
    end: bool
    next_steps: int


class SyncLoop:
    """Trains epochs; the caller owns model, feed and checkpoints.

    Attributes:
        position: The training position, changed by this loop only.
    """

    def __init__(
        self,
        settings: LoopSettings,
        update: Callable[..., float],
        exchange: Exchange,
        *,
        position: Position,
        steps_to_save: Callable[[int], int | None],
        wish: Callable[[int], Wish],
        on_call: Callable[[], None],
        save: Callable[[], None],
    ) -> None:
        """Makes a loop.

        Args:
            update: As `UpdateFunction.__call__`.
            steps_to_save: Updates from a step until a checkpoint is due by steps, the same on every node.
            wish: Returns this node's wishes at a step.
            on_call: Called after every call.
            save: Writes a checkpoint of the position.
        """
        self._settings = settings
        self._update = update
        self._exchange = exchange
        self._steps_to_save = steps_to_save
        self._wish = wish
        self._on_call = on_call
        self._save = save
        self._share = batch_shares(settings.batch_size, exchange.members)[exchange.rank]
        self._call_steps = min(2, settings.steps_per_call)
        self._measured_steps = self._call_steps
        self._calls = 0
        self.position = position

    def begin_epoch(self) -> int | None:
        """Begins the next epoch; returns its number, None if training is complete."""
        epoch = self._settings.extent.epoch_after(self.position)
        if epoch is not None:
            self.position = self.position.begun(epoch)
        return epoch

    def run_epoch(self, feed: Feed) -> None:
        """Trains on all rows of the feed, together with the other nodes on theirs."""
        # A run that ends inside an epoch may leave rows over, or may have trained the last one just now.
        complete = self._train(feed) or self._is_dry(feed)
        self.position = self.position.ended(complete=complete)

    def _is_dry(self, feed: Feed) -> bool:
        """Whether no node has a row of the epoch left."""
        [left] = self._exchange.sum([np.array(not feed.is_all(self.position.rows), np.int64)])
        return not left

    def _train(self, feed: Feed) -> bool:
        """Trains until the epoch or the run ends; returns whether no node has rows to train."""
        while not self._settings.extent.is_exhausted(self.position.step):
            columns = feed.next_rows(self._share * self._steps_of_call())
            rows = row_count(columns)
            counts = self._counts(rows)
            agreed = self._agree(counts)
            if agreed.save and not agreed.end:
                self._save()
            if not len(agreed.totals) or agreed.end:
                return not len(agreed.totals)
            self._run_call(columns, counts, agreed)
            if self._steps_to_save(self.position.step - 1) == 1:
                self._save()
        return False

    def _steps_of_call(self) -> int:
        """Returns the updates of the next call, which ends where a checkpoint by steps is due, or at `max_steps`."""
        step = self.position.step
        limits = [self._call_steps, self._steps_to_save(step), self._settings.extent.steps_left(step)]
        return min(limit for limit in limits if limit is not None)

    def _counts(self, rows: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Returns this node's rows in each update of the call, int32 [steps_per_call]: full shares, rest, zeros."""
        ends = np.minimum(np.arange(1, self._settings.steps_per_call + 1) * self._share, rows)
        return np.diff(ends, prepend=0).astype(np.int32)

    def _agree(self, counts: np.ndarray[Any, np.dtype[np.int32]]) -> Agreement:
        wish = self._wish(self.position.step)
        said = [wish.save, wish.end, self._measured_steps if self._exchange.leads else 0]
        told = np.array(self._exchange.gather(np.concatenate([counts, np.array(said, np.int32)])))
        *rows, save, end, next_steps = told.sum(axis=0)
        totals = np.array(rows[: np.count_nonzero(rows)], np.int32)
        return Agreement(totals, bool(save), bool(end), int(next_steps))

    def _run_call(self, columns: Any, counts: np.ndarray[Any, np.dtype[np.int32]], agreed: Agreement) -> None:
        started = time.perf_counter()
        devices = np.arange(self._settings.devices + 1)
        live = counts[: len(agreed.totals), None]
        per_device = np.diff(live * devices // self._settings.devices, axis=1).astype(np.int32)
        loss = self._update(to_tensors(columns), per_device, agreed.totals)
        self._measure(len(agreed.totals), time.perf_counter() - started)
        self._call_steps = agreed.next_steps
        step = self.position.step + len(agreed.totals)
        advanced = self.position.advanced(step=step, rows=int(counts.sum()), loss=loss)
        self.position = advanced.learned(loss, int(agreed.totals.sum()))
        self._on_call()

    def _measure(self, steps: int, seconds: float) -> None:
        """Proposes the size of the next call by the time of this one, unless it was the first, which also traces."""
        self._calls += 1
        if self._calls > 1:
            wanted = int(KNOBS.call_s * steps / max(seconds, 1e-6))
            self._measured_steps = max(1, min(self._settings.steps_per_call, wanted, 4 * steps))
