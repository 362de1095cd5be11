"""Who speaks: the base of all messages of the trainers of an attempt."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from sparktf.message import Message
from sparktf.topology import NodeId


class Sender(TypedDict):
    """The fields of a `NodeMessage` that say whose it is."""

    attempt: int
    node: NodeId
    incarnation: int


class TrainerKey(NamedTuple):
    """What tells one trainer from all others of a run."""

    attempt: int
    node: NodeId
    incarnation: int = 0


class NodeMessage(Message):
    """A message of a trainer or about one; refused if its attempt or incarnation is over."""

    attempt: int
    node: NodeId
    incarnation: int = 0  # Which of the trainers that this node has had in the attempt, from 0 on
    # Counts what this incarnation sends of one action, from 1 on: sent again, as where an answer was lost, a message
    # keeps its number, and the driver answers as before. 0 for what is not sent again: heartbeats.
    number: int = 0

    @property
    def trainer(self) -> TrainerKey:
        return TrainerKey(self.attempt, self.node, self.incarnation)
