"""What nodes tell of the files that they bring to the run's folder: checkpoints and the exported model."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.results.comparison import Comparison
from sparktf.results.keep import EpochLoss, Kept
from sparktf.results.result import Stopped
from sparktf.results.time_limit import Ending
from sparktf.sequence import Interval
from sparktf.wire.control import Flavour
from sparktf.wire.sender import NodeMessage


class StagedFile(Message):
    """An uploaded file, named relative to its folder."""

    name: str
    nbytes: int
    sha256: str


class Uploaded(NodeMessage):
    """A node's part of a checkpoint is in the staging folder, or could not be brought there."""

    step: int
    epoch: int
    # Intervals of the sequence of `epoch` that this node has trained in this attempt, up to `step`
    done: tuple[Interval, ...]
    keras: Flavour
    rows_aside: int = 0  # How many rows of these were set aside
    in_doubt: int = 0  # Rows besides these that may be in the weights, of executions that broke off
    # Those that this node has uploaded: the chief, and nodes that wrote a part of the chief's checkpoint
    files: tuple[StagedFile, ...] = ()
    others: tuple[str, ...] = ()  # Which files others have written, without which the chief's checkpoint is not whole
    error: str = ""  # Why files are not there; "" if they are
    loss: EpochLoss = EpochLoss()  # Of the rows of `epoch` until then


class Finished(NodeMessage):
    """A trainer has done all of its work; it stays until it is told to stop."""

    step: int
    early: bool = False  # A loop of the user's own has left epochs untrained
    kept: Kept | None = None  # Which weights the model has, if the best are kept; from who evaluates
    model: tuple[StagedFile, ...] = ()  # Files of the exported model in the staging folder
    folder: str = "model"  # Where in the staging folder the model is
    # Why there were epochs left, where sparktf's own loop has ended before; from the leader
    stopped: Stopped | None = None
    comparison: Comparison | None = None  # What the gate found of the model; from who exports it
    ending: Ending | None = None  # How long it took from the last update on, if the node trained in sparktf's own loop
