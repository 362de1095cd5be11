"""Guards of asynchronous training, each taken out: what stands in their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.discipline import Fail, Replace
from sparktf.driver.attempt.disciplines import Asynchronous
from sparktf.driver.attempt.losses import Losses, StandIn
from sparktf.driver.attempt.members import Members, Trainer, have_met, speaker
from sparktf.driver.attempt.rows.fed_rows import Claim, Claims
from sparktf.driver.attempt.rows.leases import Lessee
from sparktf.driver.attempt.saves import Save, Start, joined_save
from sparktf.driver.gang.handlers import Answers
from sparktf.errors import ErrorRecord
from sparktf.feed.leased_feed import LeasedFeed
from sparktf.feed.receipts import Trained
from sparktf.message import Message
from sparktf.topology import NodeId
from sparktf.trainer.node import saving
from sparktf.trainer.node.saving import Saves
from sparktf.trainer.parameter_server import dispatch
from sparktf.trainer.parameter_server.shared_updates import rounds
from sparktf.trainer.parameter_server.tally import Tally
from sparktf.trainer.parameter_server.telling import Telling
from sparktf.wire.control import WorkerPlace
from sparktf.wire.leasing import Receipt
from sparktf.wire.sender import NodeMessage, TrainerKey
from sparktf.wire.uploads import Uploaded

_succeeded = Attempt.succeed
_take = Tally._take
_succeed = Tally.succeed
_done = LeasedFeed.done
_mark = LeasedFeed._mark
_decide = dispatch.decide
_enter = rounds.Rounds.enter
_outcome = rounds.Rounds.outcome
_on_loss = Asynchronous.on_loss
_place = Losses._place
_once = Answers.once


def _returned_at_once(self: Attempt, node: NodeId, agent: str, host: str, address: str, jvm: str = "") -> Trainer:
    self._leases._close(node, self.trainers[node].incarnation)
    return _succeeded(self, node, agent, host, address, jvm)


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


def _done_of_any(
    self: LeasedFeed, take: int, loss: float, rows: int | None = None, metrics: tuple[float, ...] = ()
) -> Trained | None:
    return _done(self, self._out.number if self._out is not None else take, loss, rows, metrics)


def _saved_at_once(course: dispatch.EpochState, pace: dispatch.Pace) -> dispatch.DispatchDecision:
    return dispatch.SaveNow() if course.is_save_due and not course.is_over else _decide(course, pace)


def _told_some_day(self: Telling) -> None:
    with self._changed:
        self._raise()


def _of_the_node(node: NodeId, incarnation: int) -> Lessee:
    del incarnation
    return Lessee(node, 0)


def _without_budgets(course: dispatch.EpochState) -> int | None:
    before_save = None if course.until_save is None else course.until_save - sum(course.budgets)
    return min((limit for limit in (course.until_end, before_save) if limit is not None), default=None)


def _replaced(self: Asynchronous, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace:
    return Replace(member.node) if member.node in self.lessees(members) else _on_loss(self, member, record, members)


def _lost_at_the_start(self: Asynchronous, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace:
    return _on_loss(self, member, record, members) if have_met(members) else Fail(record)


def _coordinators_alone(
    self: Asynchronous, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start
) -> Save | None:
    told = [uploads[node] for node in self.reporters(members) if node in uploads]
    return joined_save(start, told) if told else None


def _aside_of_this_attempt(start: Start, uploads: Sequence[Uploaded]) -> Save:
    return joined_save(start._replace(rows_aside=0), uploads)


def _placed_at_once(self: Losses, worker: Trainer) -> WorkerPlace:
    if self.has(worker):
        return _place(self, worker)
    return WorkerPlace(node=worker.node, incarnation=worker.incarnation, address=worker.address)


def _without_stood_in(self: Losses, lost: Trainer) -> bool:
    return lost.node not in self._stood_in


def _settled_at_once(self: Claims, living: int) -> Mapping[Lessee, Claim] | None:
    return self._of if living and len(self._of) == living else None


def _taken_late(self: rounds.Rounds, who: rounds.Who, number: int, rows: int) -> bool:
    return _enter(self, who, self.number, rows)


def _always_made(self: rounds.Rounds, who: rounds.Who, number: int) -> rounds.RoundOutcome:
    verdict, following = _outcome(self, who, number)
    return rounds.RoundOutcome(
        rounds.RoundVerdict.MADE if verdict is rounds.RoundVerdict.DROPPED else verdict, following
    )


def _done_wholly(
    self: LeasedFeed, take: int, loss: float, rows: int | None = None, metrics: tuple[float, ...] = ()
) -> Trained | None:
    del rows
    return _done(self, take, loss, None, metrics)


def _wished_for_ever(self: Saves) -> bool:
    return bool(self._place.leads and self._policy.due_by_time(saving.time.monotonic()))  # type: ignore[attr-defined]


def _marked_at_its_end(
    self: LeasedFeed, rows: int, *, replayed: int, loss: float, metrics: tuple[float, ...] = ()
) -> Trained | None:
    return None if rows else _mark(self, rows, replayed=replayed, loss=loss, metrics=metrics)


def _served_again(self: Answers, sender: Any, action: Any, number: int, serve: Callable[[], Message]) -> Message:
    return serve()


def _answered_as_its_node(
    self: Answers, sender: Any, action: Any, number: int, serve: Callable[[], Message]
) -> Message:
    return _once(self, sender[:2] if isinstance(sender, TrainerKey) else sender, action, number, serve)


def _served_late(self: Answers, sender: Any, action: Any, number: int, serve: Callable[[], Message]) -> Message:
    last = self._last.get((sender, action))
    return serve() if last is not None and number < last.number else _once(self, sender, action, number, serve)


_ROUNDS = "sparktf.trainer.parameter_server.shared_updates.rounds"
_ANSWERS = "sparktf.driver.gang.handlers.Answers"
_FED = "sparktf.driver.attempt.rows.fed_rows"
_LOOP = "sparktf.trainer.parameter_server.async_loop.AsyncLoop"
_DISPATCH = "sparktf.trainer.parameter_server.dispatch"

GUARDS: Mapping[str, Mapping[str, Any]] = {
    "leases of a lost incarnation stay until it is closed": {
        "sparktf.driver.attempt.attempt.Attempt.succeed": _returned_at_once
    },
    "leases of a closed incarnation return": {
        "sparktf.driver.attempt.rows.lease_books.LeaseBooks._close": lambda self, node, incarnation: None
    },
    "incarnations that are lost are closed": {"sparktf.trainer.parameter_server.tally.Tally.succeed": _never_closed},
    "the coordinator takes a receipt once": {"sparktf.trainer.parameter_server.tally.Tally._take": _taken_anew},
    "messages of older incarnations are refused": {"sparktf.driver.attempt.crew.speaker": _any_incarnation},
    "receipts of older incarnations are not taken": {
        "sparktf.trainer.parameter_server.tally.Tally._take": _taken_of_any
    },
    "a checkpoint waits for what is under way": {"sparktf.trainer.parameter_server.async_loop.decide": _saved_at_once},
    "the driver knows all receipts before a checkpoint, or an epoch's end": {
        "sparktf.trainer.parameter_server.telling.Telling.flush": _told_some_day
    },
    "leases are an incarnation's, and not its node's": {"sparktf.driver.attempt.rows.lease_books.Lessee": _of_the_node},
    "a successor's address is told once it is ready": {"sparktf.driver.attempt.losses.Losses._place": _placed_at_once},
    "what is under way counts towards train.max_steps": {f"{_DISPATCH}.EpochState.spare": property(_without_budgets)},
    "what a worker refuses ends the run": {"sparktf.driver.attempt.disciplines.Asynchronous.on_loss": _replaced},
    "bad rows of all workers are counted": {
        "sparktf.driver.attempt.rows.accounting.EpochAccount.too_many_aside": lambda self, limit, time_s: None
    },
    "bad rows of earlier attempts are counted": {
        "sparktf.driver.attempt.disciplines.joined_save": _aside_of_this_attempt
    },
    "rows that were replayed in earlier attempts are counted": {
        "sparktf.driver.attempt.rows.accounting.EpochAccount.replayed": property(
            lambda account: account.receipts.replayed
        )
    },
    "a checkpoint has the files of all servers": {
        "sparktf.driver.attempt.disciplines.Asynchronous.saved": _coordinators_alone
    },
    "a stand-in has a place that nobody takes": {
        "sparktf.driver.attempt.losses.Losses.overdue": lambda *known: StandIn({})
    },
    "a worker that comes later takes a stand-in's place": {
        "sparktf.driver.attempt.losses.Losses.may_be_followed": _without_stood_in
    },
    "what lost workers had is fed again": {f"{_FED}.FedRows.feed_again": lambda self: None},
    "a split that is fed again has only the rows that are not trained": {
        f"{_FED}.FedRows.lease": lambda self, message: self._open.lease(message)
    },
    "it is fed again once nobody has any of it": {f"{_FED}.Claims.settled": _settled_at_once},
    "a gradient that comes late is dropped": {f"{_ROUNDS}.Rounds.enter": _taken_late},
    "rows whose gradient was dropped are not trained": {f"{_ROUNDS}.Rounds.outcome": _always_made},
    "rows count as far as updates took them": {"sparktf.feed.leased_feed.LeasedFeed.done": _done_wholly},
    "a take that was handed out again does not count": {"sparktf.feed.leased_feed.LeasedFeed.done": _done_of_any},
    "a wish for a checkpoint is there once": {"sparktf.trainer.node.saving.Saves.take_wish": _wished_for_ever},
    "a checkpoint is written where one is due": {f"{_DISPATCH}.EpochState.is_save_due": property(lambda course: True)},
    "what comes back is taken": {f"{_LOOP}._receive": lambda self: None},
    "there is a receipt of what is trained": {"sparktf.feed.leased_feed.LeasedFeed._mark": _marked_at_its_end},
    "a worker that is lost while the gang starts is followed": {
        "sparktf.driver.attempt.disciplines.Asynchronous.on_loss": _lost_at_the_start
    },
    "an attempt begins with all of its workers": {"sparktf.driver.attempt.losses.have_met": lambda members: True},
    "whoever follows before all have met has as long to start": {
        "sparktf.driver.attempt.standing.started_s": lambda members, attempt_s: attempt_s
    },
    "a message that comes twice is served once": {f"{_ANSWERS}.once": _served_again},
    "an answer is an incarnation's, and not its node's": {f"{_ANSWERS}.once": _answered_as_its_node},
    "a message that comes after a later one is refused": {f"{_ANSWERS}.once": _served_late},
    "rounds know who is lost": {f"{_ROUNDS}.Rounds.succeed": lambda self, worker, incarnation: None},
}
"""Guard -> what to patch -> with what."""

ONLY: Mapping[str, str] = {"a worker that comes later takes a stand-in's place": "agent-away node-dies"}
"""Guard -> the only kinds of faults that are on, where others would cover for it."""
