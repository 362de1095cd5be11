"""The messages of agents and trainers, and their handlers: under the roster's lock, by any transport.

Only dealing and leasing, which may take long, are outside of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.crew import Crew
from sparktf.driver.attempt.event_count import EventCount
from sparktf.driver.attempt.functions import Functions
from sparktf.driver.gang.roster import Roster
from sparktf.driver.gang.site import Handler, Later
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
    Printed,
    Ready,
    Registration,
    TrainerExited,
    TrainerOrders,
    Warned,
)
from sparktf.wire.data import LeaseRequest, Sealed, WorkRequest
from sparktf.wire.guest import DealRequest
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Fetched
from sparktf.wire.regrouping import Left, Regrouped
from sparktf.wire.restore import NextCommitRequest
from sparktf.wire.sender import NodeMessage
from sparktf.wire.uploads import Finished, Uploaded

_Crew = TypeVar("_Crew", Attempt, Functions)
_Request = TypeVar("_Request", bound=Message)


@dataclass(slots=True)
class _Last:
    """The last message of one sender and action that was served; `lock` is held while one is."""

    number: int = 0
    answer: Message | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Answers:
    """The last answer to each sender and action: at-most-once delivery, as of remote procedure calls.

    A network may bring a message twice, late or after its successors, and a sender that has lost an answer sends again.
    Senders number their messages of an action, and send the next only once they have the answer, or have given up. So
    only the last answer may still be waited for: it is given again, and nothing happens a second time. An older number
    is refused. Each incarnation of a node is a sender of its own.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[Hashable, Action], _Last] = {}

    def once(self, sender: Hashable, action: Action, number: int, serve: Callable[[], Message]) -> Message:
        """Returns the result of `serve`, or its earlier one for this number; its errors are not remembered.

        Raises:
            RefusedError: a later message of this action was served.
        """
        if not number:
            return serve()
        last = self._last.get((sender, action)) or self._last.setdefault((sender, action), _Last())
        with last.lock:
            if number < last.number:
                raise RefusedError(f"{action} {number} came too late, after {action} {last.number} was answered")
            if number > last.number or last.answer is None:
                last.answer, last.number = serve(), number
            return last.answer


class Dispatcher:
    """Answers the messages of one gang; thread-safe.

    Attributes:
        attempt: The current attempt, to train or to run functions; None before the first.
    """

    def __init__(self, roster: Roster) -> None:
        self.attempt: Crew | None = None
        self._roster = roster
        self._answers = Answers()

    def handlers(self) -> dict[Action, Handler]:
        """Returns the handler of each action; each raises `RefusedError` for late messages, or those of strangers."""
        return {
            Action.REGISTER: Handler(Registration, self._roster.register),
            Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, self._beat),
            Action.TRAINER_EXITED: Handler(TrainerExited, self._trainer_exited),
            Action.HEARTBEAT: Handler(Heartbeat, self._heartbeat),
            # A share is the same each time, and those of a large plan are too large to be kept.
            Action.ASSIGNMENT: Handler(
                AssignmentRequest, self._assignment, Later(lambda said: not said.is_early, self._turns)
            ),
            # Each time it is asked anew; what it tells is the same.
            Action.LEFT: Handler(
                Left,
                lambda m: self._locked(self._training().left, m),
                Later(lambda said: said.generation is not None, self._turns),
            ),
            Action.LEASE: Handler(LeaseRequest, lambda m: self._locked(self._training().lease, m)),
            Action.DEAL: Handler(DealRequest, lambda m: self._locked(self._of(Functions).deal, m)),
            **{action: Handler(kind, partial(self._once, action, serve)) for action, kind, serve in self._of_nodes()},
        }

    def _of_nodes(self) -> list[tuple[Action, type[NodeMessage], Callable[[Any], Message]]]:
        """Returns the messages that nodes send again if an answer is lost."""
        return [
            (Action.READY, Ready, lambda m: self._locked(self._current().ready, m)),
            (Action.METRICS, Metrics, lambda m: self._locked(self._training().metrics_reported, m)),
            (Action.EPOCH_DONE, EpochDone, lambda m: self._locked(self._training().epoch_done, m)),
            (Action.UPLOADED, Uploaded, lambda m: self._locked(self._training().uploaded, m)),
            (Action.FINISHED, Finished, lambda m: self._locked(self._current().finished, m)),
            (Action.FAILED, Failed, lambda m: self._locked(self._current().failed, m)),
            (Action.WARNING, Warned, lambda m: self._locked(self._training().warned, m)),
            (Action.SEALED, Sealed, lambda m: self._locked(self._training().sealed, m)),
            (Action.WORK, WorkRequest, lambda m: self._locked(self._training().work, m)),
            (Action.PRINTED, Printed, lambda m: self._locked(self._training().has_printed, m)),
            (Action.LEASE_BLOCKS, BlockLeaseRequest, self._lease_blocks),
            (Action.FETCHED, Fetched, lambda m: self._locked(self._training().fetched, m)),
            (Action.REGROUPED, Regrouped, lambda m: self._locked(self._training().regrouped, m)),
            (Action.NEXT_COMMIT, NextCommitRequest, lambda m: self._locked(self._training().next_commit, m)),
        ]

    def _once(self, action: Action, serve: Callable[[Any], Message], message: NodeMessage) -> Message:
        with self._roster.changed:
            self._current().hear(message)  # a node that has lost its place is refused even earlier answers
        return self._answers.once(message.trainer, action, message.number, lambda: serve(message))

    def _beat(self, message: AgentHeartbeat) -> Message:
        serve = partial(self._roster.heartbeat, message)
        return self._answers.once(message.agent, Action.AGENT_HEARTBEAT, message.number, serve)

    def _current(self) -> Crew:
        if self.attempt is None:
            raise RefusedError("no attempt is under way")
        return self.attempt

    def _turns(self) -> EventCount:
        return self._training().reporters.turns

    def _training(self) -> Attempt:
        return self._of(Attempt)

    def _of(self, kind: type[_Crew]) -> _Crew:
        current = self._current()
        if not isinstance(current, kind):
            raise RefusedError("this attempt does not accept the action")
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
