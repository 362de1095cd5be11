"""The consequences of a strategy for the gang, as all disciplines give them; no other code asks for the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from sparktf.driver.attempt.members import Members, Trainer
from sparktf.driver.attempt.saves import Save, Start
from sparktf.errors import ErrorRecord
from sparktf.sequence import Stream
from sparktf.topology import NodeId
from sparktf.wire.control import AssignmentRequest
from sparktf.wire.uploads import Uploaded


class Fail(NamedTuple):
    """The attempt ends, for this reason."""

    record: ErrorRecord


class Replace(NamedTuple):
    """The attempt goes on; the node gets another trainer."""

    node: NodeId


class GoOn(NamedTuple):
    """The attempt goes on without it."""


class Leave(NamedTuple):
    """The attempt goes on: the other members of its gang regroup without it."""


class Share(NamedTuple):
    """A node's part of an epoch: its number, from 0 on, among the nodes to which the epoch is dealt."""

    number: int
    among: tuple[NodeId, ...]


class Discipline(Protocol):
    """Answers for one strategy; has no state, and is asked under the lock."""

    def follows(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns the nodes that get another trainer where they lose theirs and the attempt goes on."""

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """Returns the part of an epoch of the node that asks. Raises `RefusedError` if it has none."""

    def reporters(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns the nodes that together report the run's progress.

        They make its steps, count its rows and report its epochs; they are late when they make no steps.
        """

    def lessees(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns the nodes that lease rows as they train, and leave it to a reporter to report them."""

    def fed(self, stream: Stream, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns the nodes that take the rows of a stream that Spark feeds."""

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace | Leave | GoOn:
        """Returns the consequence of a trainer's failure, end or silence."""

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """Returns the checkpoint that nodes have uploaded at one step; None while it is not whole."""

    def is_done(self, members: Members) -> bool:
        """Returns whether all of the work is done."""
