"""Who speaks: the base of all that the trainers of an attempt say."""

from __future__ import annotations

from typing import TypedDict

from sparktf.message import Message
from sparktf.topology import NodeId


class Sender(TypedDict):
    """The fields of a `NodeMessage` that say whose it is."""

    attempt: int
    node: NodeId
    incarnation: int


class NodeMessage(Message):
    """What a trainer says, or what is said of it; refused if it is of an attempt or an incarnation that is over.

    Attributes:
        incarnation: Which of the trainers that this node has had in the attempt, from 0 on.
    """

    attempt: int
    node: NodeId
    incarnation: int = 0
