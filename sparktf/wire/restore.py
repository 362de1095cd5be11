"""Committed checkpoints, as trainers go on from them and evaluators read them."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.results.keep import EpochLoss, Evaluation
from sparktf.sequence import Cursor
from sparktf.wire.sender import NodeMessage


class BestWeights(Message):
    """The committed checkpoint of the best epoch so far."""

    evaluation: Evaluation
    path: str
    files: tuple[str, ...]


class Committed(Message):
    """A checkpoint that is committed, for the node that evaluates it.

    Attributes:
        epoch: The one in which its step was the last.
    """

    path: str
    step: int
    epoch: int
    files: tuple[str, ...]


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


class Restore(Message):
    """The checkpoint a trainer starts from.

    Attributes:
        rows_aside: Rows of the cursor's epoch that were set aside.
        evaluated: The validation metrics of these weights are known.
        best: Where the best weights before are, if the run keeps them.
        validation: What is known of the weights up to this step.
        training: The training loss of the epochs before, where anybody looks at it.
        loss: Of the rows of the cursor's epoch that are trained.
    """

    path: str
    step: int
    cursor: Cursor
    rows_trained: int
    files: tuple[str, ...]
    rows_aside: int = 0
    evaluated: bool = False
    best: BestWeights | None = None
    validation: tuple[Evaluation, ...] = ()
    training: tuple[Evaluation, ...] = ()
    loss: EpochLoss = EpochLoss()
