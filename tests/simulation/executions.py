"""What TensorFlow does for a coordinator: gives executions to workers, again where one broke off, and reseats them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from simulation.hub import SimCondition, Waiter
from simulation.servers import Execution

from sparktf.knobs import KNOBS
from sparktf.topology import NodeId
from sparktf.trainer.parameter_server.membership.seats import Reach, are_filled
from sparktf.trainer.parameter_server.tally import LastReceipt
from sparktf.wire.control import WorkerPlace

if TYPE_CHECKING:
    from simulation.roles import Coordinator, Worker


STAND_IN = "beside the coordinator"
_STARTS_S = 2.0
"""So long a stand-in takes until it answers."""


class BrokeOffError(Exception):
    """An execution has to be made again, although its worker lives."""


class WorkerLostError(Exception):
    """The connection to a worker broke."""


class Result(NamedTuple):
    """See `fetching.ExecutionResult`."""

    number: int
    value: bytes


class Task(NamedTuple):
    """What was sent out, to whoever takes it."""

    number: int
    epoch: int
    updates: int
    acknowledged: tuple[LastReceipt, ...]


@dataclass
class Chair:
    """A worker's place in TensorFlow's cluster; see `seats.Reach` and `doors.Door`.

    Attributes:
        standing_s: When its stand-in was started; None while it needs none.
    """

    address: str
    incarnation: int = 0
    is_lost: bool = False
    is_stood_in: bool = False
    is_called: bool = False
    is_closed: bool = False
    standing_s: float | None = None


class Executions:
    """See `fetching.Executions`: one thread for each place, and one that looks after those that are lost."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._process, self._line = coordinator.process, coordinator.line
        self._changed = SimCondition(self._process, 0.0)
        self._queue: deque[Task] = deque()
        self._came: deque[Result | Exception] = deque()
        self.broken_off: Counter[tuple[NodeId, int]] = Counter()
        self._chairs = [Chair(place.address, place.incarnation) for place in coordinator.seated]
        for chair in self._chairs:
            self._process.spawn(partial(self._serve, chair))
        self._process.spawn(self._look_after_chairs)

    def look(self) -> None:
        """The driver has told who the workers are."""
        with self._changed:
            self._changed.notify_all()

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        """Has some worker execute."""
        with self._changed:
            self._queue.append(Task(number, epoch, updates, tuple(acknowledged)))
            self._changed.notify_all()

    def next(self, wait_s: float) -> Result | None:
        """Returns what has come next. Raises what an execution has failed with, for good."""
        with self._changed:
            self._changed.wait_for(lambda: self._came, wait_s)
            came = self._came.popleft() if self._came else None
        if isinstance(came, Exception):
            raise came
        return came

    # ---- one place ----

    def _serve(self, chair: Chair) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue and not (chair.is_lost or chair.is_closed))
                task = self._queue.popleft()
                chair.is_called = True
            if chair.is_stood_in:
                self._line.violate(f"{self._process} gives execution {task.number} to a stand-in")
            worker = self._line.worker_at(chair.address)
            execution = Execution(task.number, task.epoch, task.updates, worker)
            try:
                value = self._execute(worker, execution, task)
            except WorkerLostError:
                chair.is_lost = True
                self._again(task, execution)
            except BrokeOffError:
                self._again(task, execution)
            else:
                self._process.spawn(partial(self._fetch, worker, execution, task, value))
            chair.is_called = False

    def _execute(self, worker: Worker, execution: Execution, task: Task) -> Any:
        waiter = Waiter(self._process)
        if chance := self._line.faults.strike("execution-breaks", f"{task.number} on {worker.process}"):
            aborted = chance.random() < 0.5
            execution.stalls_s = chance.choice((0.0, 0.0, 1.0, 4.0))
            within_s = 0.3 * task.updates
            self._line.hub.at(chance.uniform(0.0, within_s), partial(self._break, waiter, execution, aborted=aborted))
        return self._called(waiter, worker, partial(worker.execute, execution, task, self._answer(waiter)))

    def _break(self, waiter: Waiter, execution: Execution, *, aborted: bool) -> None:
        if not waiter.done:
            execution.aborted = aborted
            waiter.wake(BrokeOffError())

    def _fetch(self, worker: Worker, execution: Execution, task: Task, value: bytes | Exception) -> None:
        strike = self._line.faults.strike("result-late", f"{task.number} of {worker.process}")
        late_s, is_asked = (strike.choice((0.3, 2.0, 6.0)), strike.random() < 0.5) if strike else (0.0, False)
        if late_s and not is_asked:
            self._process.sleep(late_s)
        waiter = Waiter(self._process)
        answer = self._answer(waiter)
        try:
            self._called(waiter, worker, lambda: answer(value))
        except WorkerLostError:
            self._again(task, execution)
            return
        if is_asked:  # it is here, and nobody has looked at it
            self._process.sleep(late_s)
        with self._changed:
            self._came.append(value if isinstance(value, Exception) else Result(task.number, value))
            self._changed.notify_all()

    def _answer(self, waiter: Waiter) -> Callable[[Any], None]:
        way_s = self._process.rng.uniform(0.001, 0.05)
        return lambda value: self._line.hub.at(way_s, partial(waiter.wake, value))

    def _called(self, waiter: Waiter, worker: Worker, begin: Callable[[], None]) -> Any:
        """Returns what a worker answers; one that stands still never does."""
        hub, rng, process = self._line.hub, self._process.rng, worker.process
        way_s, notice_s = rng.uniform(0.001, 0.02), rng.uniform(0.01, 0.8)

        def break_off() -> None:
            hub.at(notice_s, partial(waiter.wake, WorkerLostError()))

        if process.dead:
            break_off()
        else:
            process.on_end.append(break_off)
            hub.at(way_s, lambda: process.when_awake(begin))
        self._process.wait(waiter, 1e9)
        if isinstance(waiter.answer, WorkerLostError | BrokeOffError):
            raise waiter.answer
        return waiter.answer

    def _again(self, task: Task, execution: Execution) -> None:
        execution.broke_off = True
        with self._changed:
            self.broken_off[execution.worker.spec.node, execution.worker.spec.incarnation] += 1
            self._queue.appendleft(task)
            self._changed.notify_all()

    # ---- all places ----

    def _look_after_chairs(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_one_to_be_filled)
            began_s = self._line.hub.now
            while not (self._are_filled(self._line.hub.now - began_s) and self._all_listen()):
                self._process.sleep(KNOBS.fetch_again_s)
                self._stand_in()
            places = list(self._coordinator.workers().values())
            lost = [chair for chair in self._chairs if chair.is_lost]
            self._process.sleep(self._process.rng.uniform(0.05, 0.3))
            with self._changed:
                for chair, place in zip(self._chairs, places, strict=True):
                    chair.address, chair.incarnation = place.address, place.incarnation
                    chair.is_stood_in = chair.is_closed = place.stand_in
                    chair.standing_s = chair.standing_s if place.stand_in else None
                for chair in lost:
                    chair.is_lost = False
                self._changed.notify_all()

    def _is_one_to_be_filled(self) -> bool:
        """Whether one is lost, or somebody has come in the place of a stand-in."""
        self._stand_in()
        pairs = zip(self._chairs, self._coordinator.workers().values(), strict=True)
        return any(chair.is_lost or (chair.is_closed and place.address) for chair, place in pairs)

    def _stand_in(self) -> None:
        """Starts stand-ins, and gives nothing more to whoever has their places."""
        for chair, place in zip(self._chairs, self._coordinator.workers().values(), strict=True):
            if place.stand_in and not chair.is_closed:
                chair.is_closed, chair.standing_s = True, chair.standing_s or self._line.hub.now

    def _are_filled(self, waited_s: float) -> bool:
        pairs = zip(self._chairs, self._coordinator.workers().values(), strict=True)
        return are_filled([self._seat(chair, place) for chair, place in pairs], waited_s)

    def _seat(self, chair: Chair, place: WorkerPlace) -> Reach:
        if place.stand_in:
            stands = chair.standing_s is not None and self._line.hub.now - chair.standing_s >= _STARTS_S
            place = place.model_copy(update={"address": STAND_IN if stands else ""})
        return Reach(chair.is_lost, chair.incarnation, place, chair.is_called)

    def _all_listen(self) -> bool:
        places = self._coordinator.workers().values()
        return all(place.stand_in or self._line.listens(place.address) for place in places)
