"""What an evaluator and the driver say to each other of checkpoints: one is asked for, and its metrics follow."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.wire.restore import BestWeights, Committed
from sparktf.wire.sender import NodeMessage


class NextCommitRequest(NodeMessage):
    """An evaluator asks what it is to evaluate. What it was given before, it reads no more."""


class NextCommit(Message):
    """What an evaluator does next.

    Attributes:
        commit: To be evaluated; None where there is nothing now.
        is_over: Nothing more will come.
        best: Of what is evaluated, once it is over and if the run keeps the best: to be exported.
        last: Of what is committed, once it is over: a gate compares it where nothing else is exported.
    """

    commit: Committed | None = None
    is_over: bool = False
    best: BestWeights | None = None
    last: Committed | None = None
