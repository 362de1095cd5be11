"""Trainers that were lost while the attempt went on, and their successors: functions of (state, now)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sparktf.config.job import JobConfig
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.health import Failure
from sparktf.driver.attempt.members import Members, Trainer, have_met
from sparktf.errors import ErrorRecord, LifecycleError
from sparktf.knobs import KNOBS
from sparktf.topology import NodeId
from sparktf.wire.control import WorkerPlace, WorkersOrder

FRUITLESS = 4
"""Give a node up after this many trainers in a row that trained no row, or evaluated no checkpoint; the default of
spark.task.maxFailures."""


class Vacancy(NamedTuple):
    """A node without a living trainer, in an attempt that goes on."""

    node: NodeId
    since_s: float  # When it was noticed, by the driver's monotonic clock
    reason: str  # Why its last trainer was lost


class Losses:
    """The losses of an attempt that went on, in the order in which they were noticed."""

    def __init__(
        self,
        workers: Collection[NodeId],
        config: JobConfig,
        fruitful: Callable[[NodeId], int],
        *,
        least: int | None = None,
    ) -> None:
        """Begins without losses.

        Args:
            workers: The nodes whose trainers train, of which it can do without some.
            fruitful: Returns the last incarnation of a node that has trained rows; -1 for none.
            least: The number that it needs. Default: as the configuration says.
        """
        self._workers = workers
        # An update of several gradients would wait for the gradient of a missing worker.
        all_needed = config.train.replicas_to_aggregate is not None
        fewest = len(workers) if all_needed else min(config.cluster.min_workers, len(workers))
        self._least = fewest if least is None else least
        self._fruitful = fruitful
        self._noted: dict[tuple[NodeId, int], Failure] = {}
        self._unfollowed: dict[tuple[NodeId, int], str] = {}
        self._stood_in: set[NodeId] = set()

    @property
    def records(self) -> list[ErrorRecord]:
        """The cause of each loss, and why a stand-in took the place instead of a successor."""
        return [_with(loss.record, self._unfollowed.get(key, "")) for key, loss in self._noted.items()]

    def may_hold_up(self, reporter: Trainer, members: Members, now_s: float, timeouts: TimeoutsConfig) -> bool:
        """Returns whether a coordinator may be silent because it waits for a worker; a worker waits for none.

        TFE_ContextAddFunction waits for all of them, under Python's lock: a coordinator that traces a function while
        one is frozen is silent until that one is ended, which breaks the connection.
        """
        if reporter.node in self._workers:
            return False
        heard_s = reporter.heard_s
        workers = [members[node] for node in self._workers]
        # One that fell silent first is not heard after it, but for a beat that was under way.
        if any(worker.is_at_work and worker.heard_s < heard_s + timeouts.heartbeat / 3 for worker in workers):
            return True
        noted_s = [loss.noted_s for (node, _), loss in self._noted.items() if node in self._workers]
        return bool(noted_s) and now_s - (max(noted_s) + timeouts.stop) <= timeouts.heartbeat

    def explain(self, failure: Failure, reporters: Iterable[NodeId]) -> ErrorRecord:
        """Returns a failure; a reporter's silence together with the loss of a worker that may have caused it.

        See `may_hold_up`: if a worker's host is cut off, the silence ends only with TensorFlow's own timeouts.

        Args:
            reporters: The nodes that report progress.
        """
        of = failure.record
        if failure.is_silence and self._noted and of.node in map(str, reporters):
            for loss in self._noted.values():
                was_first = loss.record.time_s <= of.time_s + KNOBS.settle_s and loss.noted_s >= failure.heard_s
                if was_first and loss.record.host != of.host:
                    return _with(of, f"it may have waited for a lost node: {loss.record.message}")
        return of

    def has(self, trainer: Trainer) -> bool:
        """Whether this trainer is lost."""
        return (trainer.node, trainer.incarnation) in self._noted

    def record_of(self, trainer: Trainer) -> ErrorRecord | None:
        """Returns why this trainer is lost; None if it is not."""
        known = self._noted.get((trainer.node, trainer.incarnation))
        return None if known is None else known.record

    def last_of(self, node: NodeId) -> ErrorRecord | None:
        """Returns why the last trainer of a node that is lost is so, whoever follows it; None without any."""
        return next((loss.record for (of, _), loss in reversed(self._noted.items()) if of == node), None)

    def cause_of(self, node: NodeId, incarnation: int) -> str:
        """Returns why a trainer was lost that is noted here."""
        return self._noted[node, incarnation].record.message

    def is_unexplained(self, trainer: Trainer) -> bool:
        """Whether this trainer is lost, and only its silence is known."""
        known = self._noted.get((trainer.node, trainer.incarnation))
        return known is not None and known.is_silence

    def note(self, trainer: Trainer, record: ErrorRecord, now_s: float, *, is_silence: bool = False) -> None:
        """Notes a loss; a later report about the same trainer counts only if it was merely silent before."""
        key = (trainer.node, trainer.incarnation)
        if key not in self._noted:
            self._noted[key] = Failure(record, now_s, is_silence)
            if trainer.ready is not None:
                self._stood_in.discard(trainer.node)
        elif self._noted[key].is_silence and not is_silence:
            self._noted[key] = Failure(record, self._noted[key].noted_s)

    def add_log(self, node: NodeId, incarnation: int, log: dict[str, Any]) -> bool:
        """Adds a trainer's exit code and log to its loss; returns whether it was lost."""
        known = self._noted.get((node, incarnation))
        if known is None:
            return False
        if known.record.exit_code is None:
            record = known.record.model_copy(update=log)
            self._noted[node, incarnation] = known._replace(record=record, is_silence=False)
        return True

    def vacant(self, members: Members) -> tuple[Vacancy, ...]:
        """Returns the nodes whose trainer is lost, the longest vacancy first."""
        return tuple(
            Vacancy(node, loss.noted_s, loss.record.message)
            for (node, incarnation), loss in self._noted.items()
            if members[node].incarnation == incarnation
        )

    def may_be_followed(self, lost: Trainer) -> bool:
        """Whether its node is to get another trainer."""
        return lost.node not in self._workers or not self._loss(lost).is_hopeless

    def has_stand_in(self, lost: Trainer) -> bool:
        """Whether a stand-in holds its place, so that no other node waits for it."""
        return lost.node in self._stood_in

    def overdue(
        self, vacancies: Iterable[Vacancy], members: Members, now_s: float, limit_s: float
    ) -> StandIn | ErrorRecord:
        """Returns the places that stand-ins are to take, or why the attempt fails if too few workers are left.

        Args:
            vacancies: Of workers, the longest vacancy first.
            limit_s: The longest vacancy allowed, `timeouts.replace`.
        """
        losses = {node: self._loss(members[node]) for node, *_ in vacancies}
        # An attempt begins with all of its workers: with fewer, the next one does.
        least = self._least if have_met(members) else len(self._workers)
        ruling = decide(losses, now_s, limit_s, workers=len(self._workers), least=least)
        if isinstance(ruling, GiveUp):
            return _with(self._noted[ruling.node, members[ruling.node].incarnation].record, ruling.reason)
        return ruling

    def stand_in(self, ruling: StandIn, members: Members) -> None:
        """Puts stand-ins in the places of lost workers."""
        for node, reason in ruling.reasons.items():
            self._unfollowed[node, members[node].incarnation] = reason
            self._stood_in.add(node)

    def _loss(self, lost: Trainer) -> Loss:
        noted_s = self._noted[lost.node, lost.incarnation].noted_s
        since = range(self._fruitful(lost.node) + 1, lost.incarnation + 1)
        # One that the cluster took back would have trained rows.
        fruitless = sum(not self._was_taken_back(lost.node, incarnation) for incarnation in since)
        return Loss(noted_s, fruitless, lost.node in self._stood_in)

    def _was_taken_back(self, node: NodeId, incarnation: int) -> bool:
        loss = self._noted.get((node, incarnation))
        return loss is not None and loss.record.taken_back

    def successor(self, lost: Trainer, agent: str, host: str, address: str, now_s: float) -> Trainer:
        """Returns a trainer that follows a lost one. Raises `LifecycleError` if that is not lost."""
        if not self.has(lost):
            raise LifecycleError(f"{lost.node} is {lost.state.value} and cannot be replaced")
        return lost.successor(agent, host, address, now_s)

    def order(self, workers: Iterable[Trainer]) -> tuple[WorkersOrder, ...]:
        """Returns the coordinator's orders about workers that are lost, or follow a lost one; empty without any."""
        moved = [worker for worker in workers if worker.incarnation or self.has(worker)]
        places = tuple(self._place(worker) for worker in moved)
        return (WorkersOrder(workers=places),) if places else ()

    def _place(self, worker: Trainer) -> WorkerPlace:
        node, stand_in = worker.node, worker.node in self._stood_in
        if self.has(worker):
            return WorkerPlace(node=node, incarnation=worker.incarnation + 1, stand_in=stand_in)
        if worker.ready is None:
            return WorkerPlace(node=node, incarnation=worker.incarnation, stand_in=stand_in)
        return WorkerPlace(node=node, incarnation=worker.incarnation, address=worker.address)


def _with(record: ErrorRecord, reason: str) -> ErrorRecord:
    return record.model_copy(update={"message": f"{record.message}; {reason}"}) if reason else record


class Loss(NamedTuple):
    """A lost worker without a successor so far."""

    since_s: float  # When it was noticed, by the driver's monotonic clock
    fruitless: int = 0  # Its node's last trainers in a row, this one included, not known to have trained a row
    stood_in: bool = False  # A stand-in has its place already

    @property
    def is_hopeless(self) -> bool:
        """Whether the next trainer would be lost as the ones before."""
        return self.fruitless >= FRUITLESS


class StandIn(NamedTuple):
    """Training goes on with stand-ins in the places of these workers, each with the reason why it has no successor."""

    reasons: Mapping[NodeId, str]


class GiveUp(NamedTuple):
    """Too few workers are left after the loss of this one."""

    node: NodeId
    reason: str


def decide(
    losses: Mapping[NodeId, Loss], now_s: float, limit_s: float, *, workers: int, least: int
) -> StandIn | GiveUp:
    """Returns the consequence of the lost workers.

    Args:
        losses: Workers without a successor, the earliest loss first.
        limit_s: The longest vacancy allowed, `timeouts.replace`.
        workers: The attempt's workers, including the lost ones.
        least: The number it needs: `cluster.min_workers`, or all where updates take several gradients.
    """
    reasons = {node: reason for node, loss in losses.items() if (reason := _reason(node, loss, now_s, limit_s))}
    new = {node: reason for node, reason in reasons.items() if not losses[node].stood_in}
    left = workers - len(reasons)
    if left >= least:
        return StandIn(new)
    node, reason = next(iter((new or reasons).items()))
    few = (
        f"only {left} of {workers} workers would be left, but at least {least} are needed"
        if left
        else "no worker is left"
    )
    return GiveUp(node, f"{reason}, and {few}")


def _reason(node: NodeId, loss: Loss, now_s: float, limit_s: float) -> str:
    """Returns why a lost worker gets no successor; "" while one may come."""
    if loss.is_hopeless:
        return f"the last {loss.fruitless} processes of {node} trained no row: it is not restarted"
    if now_s - loss.since_s > limit_s:
        return f"it was not replaced within timeouts.replace: {limit_s:g} s"
    return ""
