"""What a strategy means for the gang, as all disciplines answer it; nobody else asks which strategy it is."""

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


class Share(NamedTuple):
    """A node's part of an epoch: which of the nodes among whom it is dealt it is, from 0 on."""

    number: int
    among: tuple[NodeId, ...]


class Discipline(Protocol):
    """Answers for one strategy; keeps no state, and is asked under the lock."""

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """Returns which part of an epoch is the part of the node that asks.

        Raises:
            RefusedError: it has none.
        """

    def reporters(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns which nodes say, together, where the run is.

        They make its steps, so that they are late when they make none; they count its rows, and report its epochs.
        """

    def lessees(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns which nodes lease the rows they train as they go, and leave it to a reporter to tell of them."""

    def fed(self, stream: Stream, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Returns which nodes take the rows of a stream that Spark feeds."""

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace | GoOn:
        """Returns what it means that a trainer has failed, ended or fallen silent."""

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """Returns the checkpoint that nodes have uploaded at one step; None while it is not whole."""

    def is_done(self, members: Members) -> bool:
        """Returns whether all of the work is done."""
