"""Messages by which the members of a synchronous gang go on without one that is lost."""

from __future__ import annotations

from typing import Literal

from sparktf.errors import ErrorRecord, PeerLostError
from sparktf.message import Message
from sparktf.sequence import Interval
from sparktf.topology import NodeId
from sparktf.wire.sender import NodeMessage


class RegroupedError(PeerLostError):
    """A member was lost, and the others have regrouped without it: what was under way is agreed on anew."""


class Left(NodeMessage):
    """A member has left its generation, since it has lost another one, or was told to; asks for the next.

    A trainer that follows a lost one asks for its first: it has left generation 0.
    """

    generation: int
    completed: int  # Number of the last operation that it has completed
    record: ErrorRecord  # Why it has left
    takes_in: bool = False  # It trains an epoch, where others may join
    closed_by: str = ""  # The member that has closed its connection, as its node is called


class Generation(Message):
    """The members between two losses."""

    number: int  # From 1 on
    members: tuple[NodeId, ...]  # By rank
    leader: NodeId  # It decides for all, and its files are kept
    addresses: tuple[str, ...] = ()  # Of those that follow lost ones, by rank; "" for the others
    joined: tuple[NodeId, ...] = ()  # Those that have nothing yet, and are given the state of the others
    operation: int = 0  # The last operation that any of them has completed
    giver: NodeId | None = None  # Who gives its result to those who have not; None where all have
    is_last: bool = False  # Too few are left: they store what they have, and the attempt ends
    stored: int = -1  # Update of the last checkpoint of which the driver knows that its files are stored; -1 for none


class NextGeneration(Message):
    """The generation after the one that a member has left; None while it is not decided."""

    generation: Generation | None = None


class Regrouped(NodeMessage):
    """A member of a new generation stands where all do; all members say the same, but for `is_complete`."""

    generation: int
    epoch: int
    is_complete: bool  # It knows that the epoch has ended
    # Intervals of the sequence of `epoch` that all members, lost ones too, have trained in this attempt
    done: tuple[Interval, ...]
    rows_aside: int = 0  # Number of these rows that were set aside
    step: int = 0  # Updates of the whole run


class JoinersWait(Message):
    """Tells the leader that others wait to join: the gang is to regroup where it may take them in."""

    kind: Literal["joiners-wait"] = "joiners-wait"


class GenerationOver(Message):
    """Tells a trainer which generation is over: it is to leave that, and earlier ones."""

    kind: Literal["generation-over"] = "generation-over"
    number: int
