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
    """A node's part of a checkpoint is in the staging folder, or could not be brought there.

    Attributes:
        done: Intervals of the sequence of `epoch` that this node has trained in this attempt, up to `step`.
        rows_aside: How many rows of these were set aside.
        in_doubt: Rows besides these that may be in the weights, of executions that broke off.
        files: Those that this node has uploaded: the chief, and nodes that wrote a part of the chief's checkpoint.
        others: Which files others have written, without which the chief's checkpoint is not whole.
        error: Why files are not there; "" if they are.
        loss: Of the rows of `epoch` until then.
    """

    step: int
    epoch: int
    done: tuple[Interval, ...]
    keras: Flavour
    rows_aside: int = 0
    in_doubt: int = 0
    files: tuple[StagedFile, ...] = ()
    others: tuple[str, ...] = ()
    error: str = ""
    loss: EpochLoss = EpochLoss()


class Finished(NodeMessage):
    """A trainer has done all of its work; it stays until it is told to stop.

    Attributes:
        model: Files of the exported model in the staging folder.
        early: A loop of the user's own has left epochs untrained.
        kept: Which weights the model has, if the best are kept; from who evaluates.
        folder: Where in the staging folder the model is.
        stopped: Why there were epochs left, where sparktf's own loop has ended before; from the leader.
        comparison: What the gate found of the model; from who exports it.
        ending: How long it took from the last update on, if the node trained in sparktf's own loop.
    """

    step: int
    early: bool = False
    kept: Kept | None = None
    model: tuple[StagedFile, ...] = ()
    folder: str = "model"
    stopped: Stopped | None = None
    comparison: Comparison | None = None
    ending: Ending | None = None
