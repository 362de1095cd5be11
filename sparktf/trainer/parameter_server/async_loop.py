"""The coordinator's asynchronous training loop: carries out the decisions of `dispatch`, and processes results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sparktf.feed.arrays.columns import Array
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
"""Returns a number of rows; None while it is unknown."""

_LOOK_S = 0.1
"""Interval at which the loop looks for new workers and for a wish to save."""


class AsyncLoopSettings(NamedTuple):
    """Sizes of the loop: rows of an update, and the most updates of an execution."""

    batch_size: int
    steps_per_call: int
    extent: Extent


class Surroundings(Protocol):
    """The loop's interface to the coordinator."""

    def workers(self) -> dict[NodeId, WorkerPlace]:
        """Returns the current workers."""

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        """Sends an execution of at most `updates` updates to any worker."""

    def next(self, wait_s: float) -> ExecutionResult | None:
        """Returns the next result; None if none comes in time."""

    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        """Returns the number of broken-off executions of each worker, by node and incarnation."""

    def steps_made(self) -> int:
        """Returns the updates that the optimizer has counted in the whole run."""

    def take_save_wish(self) -> bool:
        """Returns whether a checkpoint was asked for since the last call, apart from steps."""

    def steps_to_save(self, step: int) -> int | None:
        """Returns the updates until a checkpoint is due by steps; None for no such rule."""

    def is_time_up(self, step: int) -> bool:
        """Whether training ends at this step."""

    def save(self, position: Position, done: Done) -> None:
        """Writes a checkpoint."""

    def trained(self, position: Position) -> None:
        """Called when updates were made."""


class SharedUpdates(Protocol):
    """The loop's interface to aggregated updates: see `Aggregation`."""

    @property
    def steps(self) -> int:
        """Updates made in this attempt."""

    def begin_epoch(self) -> None:
        """Called before an epoch."""

    def open(self, updates: int | None) -> None:
        """Lets workers make at most this many updates."""

    def close(self) -> None:
        """Begins no further update; waits for the one in progress."""

    def succeed(self, incarnations: Mapping[NodeId, int]) -> None:
        """Takes the current incarnations of the workers."""


class AsyncLoop:
    """Trains epochs; the caller owns model and checkpoints.

    Attributes:
        position: The training position, changed by this loop only.
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
        """Sends nothing yet; `together` is None if each worker makes its own updates."""
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
        """Begins the next epoch; returns its number, None if training is complete."""
        epoch = self._settings.extent.epoch_after(self.position)
        if epoch is not None:
            self.position = self.position.begun(epoch)
            self._tally.forget_before(epoch)
        return epoch

    def run_epoch(self, rows: CountRows) -> None:
        """Trains the rest of the epoch; see `begin`."""
        self.begin(rows)
        while not isinstance(step := self.decide(), End):
            self.do(step)
        self.end()

    def begin(self, rows: CountRows) -> None:
        """Begins to train the rest of the epoch; the caller then repeats `decide` and `do`."""
        self._rows = rows
        self._first, self._broken_before = self._number, self._around.broken_off()
        self._tempo.begin(time.monotonic())
        if self._together is not None:
            self._together.begin_epoch()
        self._open()

    def end(self) -> None:
        """Ends the epoch, complete or not; call it when nothing is in flight."""
        self._close()
        self._settle()
        self._save_asked = False  # the end of an epoch is saved anyway
        self.position = self.position.ended(complete=self.left <= 0)

    def drain(self) -> None:
        """Waits for the executions in flight, as before a checkpoint, and sends nothing."""
        self._save_asked = True
        while not isinstance(step := self.decide(), SaveNow | End):
            self.do(step)
        self._save_asked = False
        self._settle()
        self._tempo.begin(time.monotonic())

    @property
    def done(self) -> Done:
        """This attempt's part of the epoch that a checkpoint at this position continues."""
        if self.position.is_complete:
            return Done()
        tally = self._tally.of(self.position.epoch)
        return Done(tally.intervals, tally.rows_aside, self._in_doubt)

    @property
    def _in_doubt(self) -> int:
        """Rows that may be in the weights without a receipt.

        A worker hands out the rows of a broken-off execution again, and makes a receipt then. The driver counts those
        of a lost worker.
        """
        replayed, rows = self._tally.of(self.position.epoch).replayed, self._settings.batch_size * self._largest
        broken = self._around.broken_off() - self._broken_before
        here = ((node, incarnation) for node, incarnation in broken if self._incarnations.get(node) == incarnation)
        untold = sum(max(rows * broken[worker] - replayed[worker], 0) for worker in here)
        late = (updates for number, updates in self._late.items() if number > self._first)
        return untold + self._settings.batch_size * sum(late)

    @property
    def rows_aside(self) -> int:
        """Rows of the epoch that were set aside in this attempt."""
        return self._tally.of(self.position.epoch).rows_aside

    @property
    def added(self) -> Array | None:
        """The additions of this attempt's rows of the epoch to the metrics' states; None if not measured."""
        return self._tally.of(self.position.epoch).metrics

    @property
    def left(self) -> int:
        """Rows of the epoch without a receipt; more than `MANY` while their number is unknown."""
        rows = self._rows()
        return (2 * MANY if rows is None else rows) - self._tally.of(self.position.epoch).covered

    @property
    def _until_save(self) -> int | None:
        return None if self._next_save is None else self._next_save - self.position.step

    def decide(self) -> DispatchDecision:
        """Returns the next action."""
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
        """Carries out an action that `decide` returned."""
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
        """Opens aggregation until the end or a checkpoint by steps."""
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
        # Aggregated updates are counted by the coordinator: a worker does not know of them.
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
        """Reports everything to the driver, and takes the optimizer's count, which includes updates made twice."""
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
            self._take_all(0.0)  # results of a lost worker that came before its successor count
            if self._together is not None:
                self._together.succeed(incarnations)
            self._telling.close(self._tally.succeed(incarnations))
            self._incarnations = incarnations


class Tempo:
    """Adapts the size of executions to the speed of the workers.

    Attributes:
        call_steps: Updates of one execution.
        slowest_s: Approximate time until the slowest ones are back.
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
        """Notes that an execution is back, and its updates."""
        self._back += 1
        self._steps += steps
        self.slowest_s = max(0.9 * self.slowest_s, took_s)
        seconds = now_s - self._since_s
        # The first, small executions are back much sooner than `call_s`: workers would idle until then.
        if seconds >= KNOBS.call_s or self._back >= IN_FLIGHT * max(workers, 1):
            self.call_steps = next_call_steps(
                self.call_steps, self._most, steps=self._steps, seconds=seconds, workers=workers, call_s=KNOBS.call_s
            )
            self.begin(now_s)
