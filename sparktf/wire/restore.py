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
    """A checkpoint that is committed, for the node that evaluates it."""

    path: str
    step: int
    epoch: int  # The one in which its step was the last
    files: tuple[str, ...]


class NextCommitRequest(NodeMessage):
    """An evaluator asks what it is to evaluate. What it was given before, it reads no more."""


class NextCommit(Message):
    """What an evaluator does next."""

    commit: Committed | None = None  # To be evaluated; None where there is nothing now
    is_over: bool = False  # Nothing more will come
    # Of what is evaluated, once it is over and if the run keeps the best: to be exported
    best: BestWeights | None = None
    # Of what is committed, once it is over: a gate compares it where nothing else is exported
    last: Committed | None = None


class Restore(Message):
    """The checkpoint a trainer starts from."""

    path: str
    step: int
    cursor: Cursor
    rows_trained: int
    files: tuple[str, ...]
    rows_aside: int = 0  # Rows of the cursor's epoch that were set aside
    evaluated: bool = False  # The validation metrics of these weights are known
    best: BestWeights | None = None  # Where the best weights before are, if the run keeps them
    validation: tuple[Evaluation, ...] = ()  # What is known of the weights up to this step
    training: tuple[Evaluation, ...] = ()  # The training loss of the epochs before, where anybody looks at it
    loss: EpochLoss = EpochLoss()  # Of the rows of the cursor's epoch that are trained
