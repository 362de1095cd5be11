"""What agents and trainers say, and who answers: under the roster's lock, whatever brought the message.

Dealing and leasing alone, which may take long, are outside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.crew import Crew
from sparktf.driver.attempt.functions import Functions
from sparktf.driver.gang.roster import Roster
from sparktf.driver.gang.site import Handler
from sparktf.errors import RefusedError
from sparktf.message import Message
from sparktf.wire.control import (
    Ack,
    Action,
    AgentHeartbeat,
    AssignmentAnswer,
    AssignmentRequest,
    EpochDone,
    Failed,
    Heartbeat,
    Metrics,
    Ready,
    Registration,
    TrainerExited,
    TrainerOrders,
    Warned,
)
from sparktf.wire.data import LeaseRequest, Sealed, WorkRequest
from sparktf.wire.evaluating import NextCommitRequest
from sparktf.wire.guest import DealRequest
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Fetched
from sparktf.wire.uploads import Finished, Uploaded

_Crew = TypeVar("_Crew", Attempt, Functions)
_Request = TypeVar("_Request", bound=Message)


class Dispatcher:
    """Answers the messages of one gang; thread-safe.

    Attributes:
        attempt: The current attempt, to train or to run functions; None before the first.
    """

    def __init__(self, roster: Roster) -> None:
        self.attempt: Crew | None = None
        self._roster = roster

    def handlers(self) -> dict[Action, Handler]:
        """Returns who answers what; each raises `RefusedError` for what comes too late, or from a stranger."""
        return {
            Action.REGISTER: Handler(Registration, self._roster.register),
            Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, self._roster.heartbeat),
            Action.TRAINER_EXITED: Handler(TrainerExited, self._trainer_exited),
            Action.READY: Handler(Ready, lambda m: self._locked(self._current().ready, m)),
            Action.HEARTBEAT: Handler(Heartbeat, self._heartbeat),
            Action.ASSIGNMENT: Handler(AssignmentRequest, self._assignment),
            Action.METRICS: Handler(Metrics, lambda m: self._locked(self._training().metrics_reported, m)),
            Action.EPOCH_DONE: Handler(EpochDone, lambda m: self._locked(self._training().epoch_done, m)),
            Action.UPLOADED: Handler(Uploaded, lambda m: self._locked(self._training().uploaded, m)),
            Action.FINISHED: Handler(Finished, lambda m: self._locked(self._current().finished, m)),
            Action.FAILED: Handler(Failed, lambda m: self._locked(self._current().failed, m)),
            Action.WARNING: Handler(Warned, lambda m: self._locked(self._training().warned, m)),
            Action.LEASE: Handler(LeaseRequest, lambda m: self._locked(self._training().lease, m)),
            Action.SEALED: Handler(Sealed, lambda m: self._locked(self._training().sealed, m)),
            Action.WORK: Handler(WorkRequest, lambda m: self._locked(self._training().work, m)),
            Action.LEASE_BLOCKS: Handler(BlockLeaseRequest, self._lease_blocks),
            Action.FETCHED: Handler(Fetched, lambda m: self._locked(self._training().fetched, m)),
            Action.NEXT_COMMIT: Handler(NextCommitRequest, lambda m: self._locked(self._training().next_commit, m)),
            Action.DEAL: Handler(DealRequest, lambda m: self._locked(self._of(Functions).deal, m)),
        }

    def _current(self) -> Crew:
        if self.attempt is None:
            raise RefusedError("there is no attempt")
        return self.attempt

    def _training(self) -> Attempt:
        return self._of(Attempt)

    def _of(self, kind: type[_Crew]) -> _Crew:
        current = self._current()
        if not isinstance(current, kind):
            raise RefusedError("this attempt does other work")
        return current

    def _locked(self, handle: Callable[[_Request], Message], message: _Request) -> Message:
        with self._roster.changed:
            answer = handle(message)
            self._roster.changed.notify_all()
            return answer

    def _heartbeat(self, message: Heartbeat) -> TrainerOrders:
        with self._roster.changed:
            attempt = self._current()
            answer = attempt.heartbeat(message)
            self._roster.vouch(attempt.trainers[message.node].agent)
            return answer

    def _assignment(self, message: AssignmentRequest) -> AssignmentAnswer:
        with self._roster.changed:
            answer = self._training().assignment(message)
            self._roster.changed.notify_all()
        return answer()

    def _lease_blocks(self, message: BlockLeaseRequest) -> BlockLease:
        with self._roster.changed:
            answer = self._training().lease_blocks(message)
        return answer()

    def _trainer_exited(self, message: TrainerExited) -> Ack:
        with self._roster.changed:
            answer = self._roster.trainer_exited(message)
            if self.attempt is not None and self.attempt.number == message.attempt:
                self.attempt.exited(message)
            return answer
