"""Guards of asynchronous training, each taken out: what stands in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.lease_books import LeaseBooks
from sparktf.driver.attempt.leases import Lessee
from sparktf.driver.attempt.members import Members, Trainer, speaker
from sparktf.feed.leased_feed import LeasedFeed
from sparktf.feed.receipts import Trained
from sparktf.topology import NodeId
from sparktf.trainer.parameter_server import dispatch
from sparktf.trainer.parameter_server.tally import Tally
from sparktf.trainer.parameter_server.telling import Telling
from sparktf.wire.leasing import Receipt
from sparktf.wire.sender import NodeMessage

_succeeded = Attempt.succeed
_count = LeaseBooks._count
_take = Tally._take
_succeed = Tally.succeed
_done = LeasedFeed.done
_decide = dispatch.decide


def _returned_at_once(self: Attempt, node: NodeId, agent: str, host: str, address: str) -> Trainer:
    self._leases._close(node, self.trainers[node].incarnation)
    return _succeeded(self, node, agent, host, address)


def _counted_anew(self: LeaseBooks, receipt: Receipt) -> None:
    lessee = Lessee(receipt.node, receipt.incarnation)
    self._told[lessee] = min(self._told.get(lessee, 0), receipt.number - 1)
    _count(self, receipt)


def _taken_anew(self: Tally, receipt: Receipt) -> bool:
    known = self._known[receipt.node]
    self._known[receipt.node] = known._replace(number=min(known.number, receipt.number - 1))
    return _take(self, receipt)


def _any_incarnation(message: NodeMessage, attempt: int, members: Members) -> Trainer:
    now = members.get(message.node)
    return speaker(message.model_copy(update={"incarnation": now.incarnation}) if now else message, attempt, members)


def _taken_of_any(self: Tally, receipt: Receipt) -> bool:
    known = self._known[receipt.node]
    if receipt.incarnation == known.incarnation:
        return _take(self, receipt)
    self.of(receipt.epoch).add(receipt)
    return True


def _never_closed(self: Tally, incarnations: Mapping[NodeId, int]) -> list[tuple[NodeId, int]]:
    _succeed(self, incarnations)
    return []


def _done_of_any(self: LeasedFeed, take: int, loss: float) -> Trained | None:
    return _done(self, self._out[0] if self._out is not None else take, loss)


def _saved_at_once(course: dispatch.Course, pace: dispatch.Pace) -> dispatch.Step:
    return dispatch.Save() if course.is_save_due and not course.is_over else _decide(course, pace)


def _told_some_day(self: Telling) -> None:
    with self._changed:
        self._raise()


GUARDS: Mapping[str, Mapping[str, Any]] = {
    "leases of a lost incarnation stay until it is closed": {
        "sparktf.driver.attempt.attempt.Attempt.succeed": _returned_at_once
    },
    "leases of a closed incarnation return": {
        "sparktf.driver.attempt.lease_books.LeaseBooks._close": lambda self, node, incarnation: None
    },
    "incarnations that are lost are closed": {"sparktf.trainer.parameter_server.tally.Tally.succeed": _never_closed},
    "the driver counts a receipt once": {"sparktf.driver.attempt.lease_books.LeaseBooks._count": _counted_anew},
    "the coordinator takes a receipt once": {"sparktf.trainer.parameter_server.tally.Tally._take": _taken_anew},
    "messages of older incarnations are refused": {"sparktf.driver.attempt.attempt.speaker": _any_incarnation},
    "receipts of older incarnations are not taken": {
        "sparktf.trainer.parameter_server.tally.Tally._take": _taken_of_any
    },
    "a checkpoint waits for what is under way": {"sparktf.trainer.parameter_server.async_loop.decide": _saved_at_once},
    "the driver knows all receipts before a checkpoint, or an epoch's end": {
        "sparktf.trainer.parameter_server.telling.Telling.flush": _told_some_day
    },
    "a take that was handed out again does not count": {"sparktf.feed.leased_feed.LeasedFeed.done": _done_of_any},
}
"""Guard -> what to patch -> with what."""
