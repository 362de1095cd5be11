"""What trainers go on from: a committed checkpoint."""

from __future__ import annotations

from sparktf.keep import Evaluation
from sparktf.message import Message
from sparktf.sequence import Cursor


class BestWeights(Message):
    """The committed checkpoint of the best epoch so far."""

    evaluation: Evaluation
    path: str
    files: tuple[str, ...]


class Committed(Message):
    """A checkpoint that is committed, for whoever evaluates it.

    Attributes:
        epoch: The one in which its step was the last.
    """

    path: str
    step: int
    epoch: int
    files: tuple[str, ...]


class Restore(Message):
    """The checkpoint a trainer starts from.

    Attributes:
        rows_aside: Rows of the cursor's epoch that were set aside.
        evaluated: The validation metrics of these weights are known.
        best: Where the best weights before are, if the run keeps them.
    """

    path: str
    step: int
    cursor: Cursor
    rows_trained: int
    files: tuple[str, ...]
    rows_aside: int = 0
    evaluated: bool = False
    best: BestWeights | None = None
