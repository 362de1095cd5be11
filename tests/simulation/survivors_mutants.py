"""The guards of a synchronous gang that goes on without a member, and what stands in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparktf.driver.attempt.discipline import Share
from sparktf.driver.attempt.generations import Generations, Stood
from sparktf.driver.attempt.members import Members
from sparktf.driver.attempt.reporters import Reporters
from sparktf.driver.attempt.rows.ledger import StreamBook
from sparktf.errors import ErrorRecord
from sparktf.feed.channel.staging import Staging
from sparktf.sequence import Interval
from sparktf.topology import NodeId
from sparktf.trainer.node.saving import Saves
from sparktf.trainer.sync.exchange.outliving import GenerationsExchange
from sparktf.wire.control import AssignmentAnswer, AssignmentRequest
from sparktf.wire.regrouping import Left
from sparktf.wire.trainer_spec import Training

_GENERATIONS = "sparktf.driver.attempt.generations.Generations"
_BOOK = "sparktf.driver.attempt.rows.ledger.StreamBook"
_REPORTERS = "sparktf.driver.attempt.reporters.Reporters"
_STAGING = "sparktf.feed.channel.staging.Staging"
_EXCHANGE = "sparktf.trainer.sync.exchange.outliving.GenerationsExchange"


def _dealt_at_once(self: Generations, request: AssignmentRequest) -> AssignmentAnswer | None:
    return AssignmentAnswer(is_over=True) if self.lost or request.generation < self.present.number else None


def _by_index(self: Any, request: AssignmentRequest, members: Members) -> Share:
    return Share(request.node.index % len(members), tuple(members))


_decided = Generations._decided


def _nothing_given(self: Generations) -> Generations:
    found = _decided(self)
    return replace(found, present=found.present.model_copy(update={"giver": None}))


def _of_the_first(self: Generations, told: Left) -> Generations:
    """Decides as soon as one has left."""
    if not told.generation or not self.lost or told.generation != self.present.number or told.node in self.lost:
        return self
    members = tuple(node for node in self.present.members if node not in self.lost)
    new = self.present.model_copy(
        update={"number": self.present.number + 1, "members": members, "operation": told.completed, "giver": None}
    )
    return Generations(new)


_refuses = Generations.refuses


def _rows_for_any(self: Generations, request: AssignmentRequest) -> AssignmentAnswer | None:
    return _refuses(replace(self, least=1), request)


def _not_stored(self: Reporters) -> bool:
    return False


def _not_ended(self: Reporters, too_few: ErrorRecord | None, members: Members) -> None:
    """Has the members wait on, while the attempt ends."""


def _forgotten(self: Stood, before: Any) -> Any:
    return before


def _any_heir(self: Generations) -> frozenset[NodeId]:
    return frozenset(self.present.members) - self.lost


def _asked_nothing(self: Saves) -> None:
    """Leaves what the leader before was storing to nobody."""


def _by_step(self: Training, what: str) -> str:
    return what


_rest = StreamBook.rest


def _over(of: StreamBook, generation: int, done: Sequence[Interval]) -> StreamBook:
    book = _rest(of, generation, done)
    book.ended = of.ended
    return book


def _of_the_living(of: StreamBook, generation: int, done: Sequence[Interval]) -> StreamBook:
    """Takes what lost members had for trained."""
    book = _rest(of, generation, done)
    gone = of.gone - book.trained
    book.rows |= {split: book.before[split] for split in gone}
    book.trained |= gone
    return book


def _dropped(self: Staging, *, is_same: bool) -> None:
    """Queues at once what feeders will offer."""
    for split, held in self._splits.items():
        if not held.kept and not (is_same and held.queued):
            continue
        held.kept, held.queued = True, 0
        self._enqueue(split, held, self._done)


GUARDS: Mapping[str, Mapping[str, Any]] = {
    "rows are dealt when all stand where all do": {f"{_GENERATIONS}.refuses": _dealt_at_once},
    "a share is by rank": {"sparktf.driver.attempt.disciplines.Lockstep.deal": _by_index},
    "who lacks a result is given it": {f"{_GENERATIONS}._decided": _nothing_given},
    "an interrupted update is agreed on anew": {f"{_EXCHANGE}.interruptible": GenerationsExchange.again},
    "a generation is decided when all others have left": {f"{_GENERATIONS}.leave": _of_the_first},
    "no rows for now is no end of an epoch": {f"{_BOOK}.rest": _over},
    "what a lost member had is fed again": {f"{_BOOK}.rest": _of_the_living},
    "what is here waits until it is offered": {f"{_STAGING}._put_by": _dropped},
    "who leads has the state": {f"{_GENERATIONS}.heirs": property(_any_heir)},
    "who comes to lead stores again": {"sparktf.trainer.node.saving.Saves.ask": _asked_nothing},
    "each trainer uploads into folders of its own": {"sparktf.wire.trainer_spec.Training.upload_name": _by_step},
    "too few members get no rows to train": {f"{_GENERATIONS}.refuses": _rows_for_any},
    "too few members store what they have": {
        f"{_REPORTERS}.may_store": property(_not_stored),
        f"{_REPORTERS}.expect": _not_ended,
    },
    "what lost members have trained is not dealt again": {"sparktf.driver.attempt.generations.Stood.after": _forgotten},
}
"""Guard -> what to patch -> with what."""

_WHILE_FED = "trainer-dies node-dies feeder-late"

ONLY: Mapping[str, str] = {
    "no rows for now is no end of an epoch": _WHILE_FED,
    "what a lost member had is fed again": _WHILE_FED,
    "what is here waits until it is offered": _WHILE_FED,
    "too few members store what they have": "trainer-dies node-dies agent-away",
    "who comes to lead stores again": "trainer-dies node-dies storage-slow",
    "each trainer uploads into folders of its own": "trainer-dies node-dies storage-slow",
}
"""Guard -> the faults that are on; "trainer-dies" by default."""
