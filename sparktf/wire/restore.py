"""Committed checkpoints, for trainers to resume from and for evaluators to read."""

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
    """A committed checkpoint, for the node that evaluates it."""

    path: str
    step: int
    epoch: int  # The epoch whose last step it has
    files: tuple[str, ...]


class NextCommitRequest(NodeMessage):
    """An evaluator asks for the next commit. It no longer reads those that it was given before."""


class NextCommit(Message):
    """The next work of an evaluator."""

    commit: Committed | None = None  # The commit to evaluate; None if there is none at the moment
    is_over: bool = False  # No further commits will come
    # The best of the evaluated commits, to be exported; only at the end, and if the run keeps the best
    best: BestWeights | None = None
    # The last commit; only at the end: a gate compares it if nothing else is exported
    last: Committed | None = None


class Restore(Message):
    """The checkpoint that a trainer starts from."""

    path: str
    step: int
    cursor: Cursor
    rows_trained: int
    files: tuple[str, ...]
    rows_aside: int = 0  # Rows of the cursor's epoch that were set aside
    evaluated: bool = False  # Whether the validation metrics of these weights are known
    best: BestWeights | None = None  # The best earlier weights, if the run keeps them
    validation: tuple[Evaluation, ...] = ()  # The known validation metrics up to this step
    training: tuple[Evaluation, ...] = ()  # The training losses of earlier epochs, if they are needed
    loss: EpochLoss = EpochLoss()  # Training loss of the cursor's epoch so far
