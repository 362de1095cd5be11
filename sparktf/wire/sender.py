"""Senders of messages: the base of all messages of an attempt's trainers."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from sparktf.message import Message
from sparktf.topology import NodeId


class Sender(TypedDict):
    """The fields of a `NodeMessage` that identify its sender."""

    attempt: int
    node: NodeId
    incarnation: int


class TrainerKey(NamedTuple):
    """Identifies one trainer of a run."""

    attempt: int
    node: NodeId
    incarnation: int = 0


class NodeMessage(Message):
    """A message of a trainer or about one; refused if its attempt or incarnation is over."""

    attempt: int
    node: NodeId
    incarnation: int = 0  # Number of the node's trainer in the attempt, from 0 on
    # Counts the messages of this incarnation by action, from 1 on. A message that is sent again because its answer was
    # lost keeps its number, and the driver repeats the answer. 0 for messages that are never repeated: heartbeats.
    number: int = 0

    @property
    def trainer(self) -> TrainerKey:
        return TrainerKey(self.attempt, self.node, self.incarnation)
