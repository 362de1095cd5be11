"""The asynchronous training loop of the coordinator: it does what `dispatch` decides, and takes what comes back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sparktf.knobs import KNOBS
from sparktf.topology import NodeId
from sparktf.trainer.node.position import Done, Extent, Position
from sparktf.trainer.parameter_server.dispatch import (
    IN_FLIGHT,
    Abandon,
    Await,
    DispatchDecision,
    End,
    EpochState,
    Pace,
    Rest,
    SaveNow,
    Send,
    decide,
    next_call_steps,
)
from sparktf.trainer.parameter_server.tally import LastReceipt, Tally, loss_of
from sparktf.trainer.parameter_server.telling import Telling
from sparktf.wire.control import WorkerPlace

if TYPE_CHECKING:  # the loop itself is played without TensorFlow
    from sparktf.trainer.parameter_server.fetching import ExecutionResult

MANY = 1 << 62
"""More rows than there are."""

CountRows = Callable[[], int | None]
"""How many rows there are; None while nobody knows."""

_LOOK_S = 0.1
"""The loop looks so often who the workers are, and whether a checkpoint is wanted."""


class AsyncLoopSettings(NamedTuple):
    """Sizes of the loop.

    Attributes:
        batch_size: Rows of an update, which one worker makes.
        steps_per_call: Updates of one execution at most.
    """

    batch_size: int
    steps_per_call: int
    extent: Extent


class Surroundings(Protocol):
    """What the loop needs of the coordinator."""

    def workers(self) -> dict[NodeId, WorkerPlace]:
        """Returns who the workers are now."""

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        """Has any of them make updates."""

    def next(self, wait_s: float) -> ExecutionResult | None:
        """Returns what has come back next, None where nothing comes for so long."""

    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        """Returns how many executions have broken off so far on each worker, by its node and incarnation."""

    def steps_made(self) -> int:
        """Returns how many updates the optimizer has counted in the whole run."""

    def take_save_wish(self) -> bool:
        """Returns whether a checkpoint was wished for since the last call, whatever the step."""

    def steps_to_save(self, step: int) -> int | None:
        """Returns the updates until the next checkpoint that is due by steps, None where there is no such rule."""

    def is_time_up(self, step: int) -> bool:
        """Whether nothing more is trained after so many updates."""

    def save(self, position: Position, done: Done) -> None:
        """Writes a checkpoint."""

    def trained(self, position: Position) -> None:
        """Is told when updates were made."""


class SharedUpdates(Protocol):
    """What the loop needs where workers make updates together: `Aggregation`."""

    @property
    def steps(self) -> int:
        """Updates that were made in this attempt."""

    def begin_epoch(self) -> None:
        """Is told before an epoch."""

    def open(self, updates: int | None) -> None:
        """Has workers make updates, so many at most."""

    def close(self) -> None:
        """Has nobody make updates any more; waits for the one that is under way."""

    def succeed(self, incarnations: Mapping[NodeId, int]) -> None:
        """Is told who the workers are now."""


class AsyncLoop:
    """Trains epochs; the caller owns model and checkpoints.

    Attributes:
        position: Where the training is; nobody else changes it.
    """

    def __init__(
        self,
        settings: AsyncLoopSettings,
        around: Surroundings,
        tally: Tally,
        telling: Telling,
        position: Position,
        together: SharedUpdates | None = None,
    ) -> None:
        """Sends nothing out yet.

        Args:
            tally: Of what the workers have trained.
            telling: Tells the driver.
            position: Where it begins.
            together: How workers make an update together; None where each makes its own.
        """
        self.position = position
        self._together = together
        self._step_before = position.step
        self._settings = settings
        self._around = around
        self._tally = tally
        self._telling = telling
        self._rows: CountRows = lambda: None
        self._number = self._first = 0
        self._under_way: dict[int, tuple[int, float]] = {}
        self._late: dict[int, int] = {}
        self._largest = 0
        self._broken_before: Counter[tuple[NodeId, int]] = Counter()
        self._workers = 0
        self._incarnations: dict[NodeId, int] = {}
        self._save_asked = False
        self._next_save = self._step_to_save()
        self._tempo = Tempo(settings.steps_per_call)
        self._moved_s = 0.0
        self._rests_since: float | None = None

    def begin_epoch(self) -> int | None:
        """Goes on to the epoch that is next; returns which it is, None where nothing is left to train."""
        epoch = self._settings.extent.epoch_after(self.position)
        if epoch is not None:
            self.position = self.position.begun(epoch)
            self._tally.forget_before(epoch)
        return epoch

    def run_epoch(self, rows: CountRows) -> None:
        """Trains what is left of the epoch; see `begin`."""
        self.begin(rows)
        while not isinstance(step := self.decide(), End):
            self.do(step)
        self.end()

    def begin(self, rows: CountRows) -> None:
        """Begins to train, step by step as `decide` says.

        Args:
            rows: What is left of the epoch; it is asked all the time.
        """
        self._rows = rows
        self._first, self._broken_before = self._number, self._around.broken_off()
        self._tempo.begin(time.monotonic())
        if self._together is not None:
            self._together.begin_epoch()
        self._open()

    def end(self) -> None:
        """Ends the epoch, or what is trained of it; nothing is under way any more."""
        self._close()
        self._settle()
        self._save_asked = False  # the end of an epoch is saved, wished for or not
        self.position = self.position.ended(complete=self.left <= 0)

    def drain(self) -> None:
        """Waits for what is under way, for as long as before a checkpoint, and sends nothing out."""
        self._save_asked = True
        while not isinstance(step := self.decide(), SaveNow | End):
            self.do(step)
        self._save_asked = False
        self._settle()
        self._tempo.begin(time.monotonic())

    @property
    def done(self) -> Done:
        """What is done of an epoch that a checkpoint at this position goes on with, in this attempt."""
        if self.position.is_complete:
            return Done()
        tally = self._tally.of(self.position.epoch)
        return Done(tally.intervals, tally.rows_aside, self._in_doubt)

    @property
    def _in_doubt(self) -> int:
        """Rows that may be in the weights, and that nobody has told of.

        A worker hands the rows of an execution that broke off out again, and tells of them then. What a lost one had
        does the driver count.
        """
        replayed, rows = self._tally.of(self.position.epoch).replayed, self._settings.batch_size * self._largest
        broken = self._around.broken_off() - self._broken_before
        here = ((node, incarnation) for node, incarnation in broken if self._incarnations.get(node) == incarnation)
        untold = sum(max(rows * broken[worker] - replayed[worker], 0) for worker in here)
        late = (updates for number, updates in self._late.items() if number > self._first)
        return untold + self._settings.batch_size * sum(late)

    @property
    def rows_aside(self) -> int:
        """Rows of the epoch that were left out in this attempt."""
        return self._tally.of(self.position.epoch).rows_aside

    @property
    def left(self) -> int:
        """Rows of the epoch that nobody has told of yet; more than `MANY` while nobody knows."""
        rows = self._rows()
        return (2 * MANY if rows is None else rows) - self._tally.of(self.position.epoch).covered

    @property
    def _until_save(self) -> int | None:
        return None if self._next_save is None else self._next_save - self.position.step

    def decide(self) -> DispatchDecision:
        """Returns what to do next."""
        self._follow_workers()
        self._save_asked = self._around.take_save_wish() or self._save_asked
        if self._together is not None:
            self.position = replace(self.position, step=self._step_before + self._together.steps)
        now_s, step = time.monotonic(), self.position.step
        rested_s = 0.0 if self._rests_since is None else now_s - max(self._rests_since, self._moved_s)
        course = EpochState(
            rows_left=self.left,
            budgets=tuple(updates for updates, _ in self._under_way.values()),
            late=sum(self._late.values()),
            workers=self._workers,
            until_end=0 if self._around.is_time_up(step) else self._settings.extent.steps_left(step),
            until_save=self._until_save,
            together=self._together is not None,
            save=self._save_asked,
            rested_s=rested_s,
        )
        drain_s = max(KNOBS.drain_s, 3 * self._tempo.slowest_s)
        return decide(course, Pace(self._settings.batch_size, self._tempo.call_steps, drain_s))

    def do(self, step: DispatchDecision) -> None:
        """Does what `decide` has returned."""
        if isinstance(step, Rest):
            self._rests_since = self._rests_since or time.monotonic()
        elif not isinstance(step, Await):
            self._rests_since = None
        match step:
            case Send():
                self._send(step.updates)
            case Await():
                self._receive()
            case Rest():
                self._close()
                self._receive()
            case Abandon():
                self._late.update((number, updates) for number, (updates, _) in self._under_way.items())
                self._under_way.clear()
            case SaveNow():
                self._close()
                self._save()
                self._open()

    def _open(self) -> None:
        """Has workers make updates together, until the end or a checkpoint by steps."""
        if self._together is not None:
            limits = (self._settings.extent.steps_left(self.position.step), self._until_save)
            self._together.open(min((limit for limit in limits if limit is not None), default=None))

    def _close(self) -> None:
        if self._together is not None:
            self._together.close()

    def _send(self, updates: int) -> None:
        self._number += 1
        self._moved_s = time.monotonic()
        self._under_way[self._number] = (updates, self._moved_s)
        self._largest = max(self._largest, updates)
        self._around.send(self._number, self.position.epoch, updates, self._tally.acknowledged)

    def _receive(self) -> None:
        """Takes what has come back, for which it waits a moment."""
        self._take_all(_LOOK_S)

    def _take_all(self, wait_s: float) -> None:
        result = self._around.next(wait_s)
        while result is not None:
            self._take(result)
            result = self._around.next(0.0)

    def _take(self, result: ExecutionResult) -> None:
        self._moved_s = time.monotonic()
        self._late.pop(result.number, None)
        _, sent_s = self._under_way.pop(result.number, (0, self._moved_s))
        receipts = self._tally.take(result.value)
        self._telling.add(receipts)
        steps, loss = sum(receipt.steps for receipt in receipts), loss_of(receipts)
        self._tempo.add(steps, self._moved_s, took_s=self._moved_s - sent_s, workers=self._workers)
        if loss is None:
            return
        rows = self._tally.of(self.position.epoch).rows
        # What they have made together, they cannot tell by themselves.
        step = self.position.step + (0 if self._together else steps)
        trained = sum(receipt.rows for receipt in receipts)
        self.position = replace(self.position, step=step, rows=rows).learned(loss, trained)
        self._around.trained(self.position)

    def _save(self) -> None:
        self._settle()
        self._around.save(self.position, self.done)
        self._save_asked = False
        self._next_save = self._step_to_save()
        self._tempo.begin(time.monotonic())

    def _settle(self) -> None:
        """Brings everybody to one state: the optimizer has counted what was made twice, too, and the driver knows."""
        self._telling.flush()
        self.position = replace(self.position, step=self._around.steps_made())

    def _step_to_save(self) -> int | None:
        left = self._around.steps_to_save(self.position.step)
        return None if left is None else self.position.step + left

    def _follow_workers(self) -> None:
        workers = self._around.workers()
        self._workers = sum(bool(place.address) for place in workers.values())
        incarnations = {node: place.incarnation for node, place in workers.items()}
        if incarnations != self._incarnations:
            self._take_all(0.0)  # what has come of a lost one before counts: nobody is to train it again
            if self._together is not None:
                self._together.succeed(incarnations)
            self._telling.close(self._tally.succeed(incarnations))
            self._incarnations = incarnations


class Tempo:
    """How large executions are, by how fast the workers are.

    Attributes:
        call_steps: Updates of one execution.
        slowest_s: About how long the slowest ones take until they are back.
    """

    def __init__(self, most: int) -> None:
        self.call_steps = min(2, most)
        self.slowest_s = 0.0
        self._most = most
        self._back = self._steps = 0
        self._since_s = 0.0

    def begin(self, now_s: float) -> None:
        """Measures from now on."""
        self._back = self._steps = 0
        self._since_s = now_s

    def add(self, steps: int, now_s: float, *, took_s: float, workers: int) -> None:
        """Notes that an execution is back, with so many updates."""
        self._back += 1
        self._steps += steps
        self.slowest_s = max(0.9 * self.slowest_s, took_s)
        seconds = now_s - self._since_s
        # The small ones of the beginning are back in a fraction of that: workers would have little to do meanwhile.
        if seconds >= KNOBS.call_s or self._back >= IN_FLIGHT * max(workers, 1):
            self.call_steps = next_call_steps(
                self.call_steps, self._most, steps=self._steps, seconds=seconds, workers=workers, call_s=KNOBS.call_s
            )
            self.begin(now_s)
