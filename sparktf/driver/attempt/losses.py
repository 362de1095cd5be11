"""Trainers that were lost while the attempt went on, and who has their places: functions of (state, now)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sparktf.driver.attempt.health import Failure
from sparktf.driver.attempt.members import Members, Trainer
from sparktf.errors import ErrorRecord, LifecycleError
from sparktf.topology import NodeId
from sparktf.wire.control import WorkerPlace, WorkersOrder


class Vacancy(NamedTuple):
    """A node without a living trainer, in an attempt that goes on.

    Attributes:
        since_s: When it was noticed, by the driver's monotonic clock.
        reason: What happened to the trainer that was the last.
    """

    node: NodeId
    since_s: float
    reason: str


class Losses:
    """What is known of them, in the order in which it was noticed."""

    def __init__(self) -> None:
        self._noted: dict[tuple[NodeId, int], Failure] = {}

    @property
    def records(self) -> list[ErrorRecord]:
        """Why each of them was lost."""
        return [loss.record for loss in self._noted.values()]

    def has(self, trainer: Trainer) -> bool:
        """Whether this trainer is lost."""
        return (trainer.node, trainer.incarnation) in self._noted

    def is_unexplained(self, trainer: Trainer) -> bool:
        """Whether this trainer is lost, and all that is known of it is its silence."""
        known = self._noted.get((trainer.node, trainer.incarnation))
        return known is not None and known.is_silence

    def note(self, trainer: Trainer, record: ErrorRecord, now_s: float, *, is_silence: bool = False) -> None:
        """Notes a loss; what is told of the same trainer later is only what followed, unless it was merely silent."""
        key = (trainer.node, trainer.incarnation)
        if key not in self._noted:
            self._noted[key] = Failure(record, now_s, is_silence)
        elif self._noted[key].is_silence and not is_silence:
            self._noted[key] = Failure(record, self._noted[key].noted_s)

    def add_log(self, node: NodeId, incarnation: int, log: dict[str, Any]) -> bool:
        """Keeps a trainer's exit code and log with its loss; returns whether it was lost."""
        known = self._noted.get((node, incarnation))
        if known is None:
            return False
        if known.record.exit_code is None:
            record = known.record.model_copy(update=log)
            self._noted[node, incarnation] = known._replace(record=record, is_silence=False)
        return True

    def vacant(self, members: Members) -> tuple[Vacancy, ...]:
        """Returns the nodes whose trainer is lost, those that have lacked one for longest first."""
        return tuple(
            Vacancy(node, loss.noted_s, loss.record.message)
            for (node, incarnation), loss in self._noted.items()
            if members[node].incarnation == incarnation
        )

    def overdue(
        self, vacancies: Iterable[Vacancy], members: Members, now_s: float, limit_s: float
    ) -> ErrorRecord | None:
        """Returns the loss of a trainer that nobody has followed within a limit, `timeouts.replace`."""
        for vacancy in vacancies:
            if now_s - vacancy.since_s > limit_s:
                record = self._noted[vacancy.node, members[vacancy.node].incarnation].record
                message = f"{record.message}; nobody took its place within timeouts.replace: {limit_s:g} s"
                return record.model_copy(update={"message": message})
        return None

    def successor(self, lost: Trainer, agent: str, host: str, address: str, now_s: float) -> Trainer:
        """Returns a trainer that follows one that is lost.

        Raises:
            LifecycleError: it is not.
        """
        if not self.has(lost):
            raise LifecycleError(f"{lost.node} is {lost.state.value}: nobody can take its place")
        return lost.successor(agent, host, address, now_s)

    def order(self, workers: Iterable[Trainer]) -> tuple[WorkersOrder, ...]:
        """Returns what the coordinator is told of workers that are lost, or follow one that was; nothing if none is."""
        moved = [worker for worker in workers if worker.incarnation or self.has(worker)]
        places = tuple(_vacant_place(worker) if self.has(worker) else _place(worker) for worker in moved)
        return (WorkersOrder(workers=places),) if places else ()


def _vacant_place(lost: Trainer) -> WorkerPlace:
    return WorkerPlace(node=lost.node, incarnation=lost.incarnation + 1)


def _place(successor: Trainer) -> WorkerPlace:
    address = "" if successor.ready is None else successor.address
    return WorkerPlace(node=successor.node, incarnation=successor.incarnation, address=address)
