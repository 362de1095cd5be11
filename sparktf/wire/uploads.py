"""Nodes' reports of the files that they upload to the run's folder: checkpoints and the exported model."""

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
    """An uploaded file, by its name within the folder."""

    name: str
    nbytes: int
    sha256: str


class Uploaded(NodeMessage):
    """A node's part of a checkpoint is in the staging folder, or could not be uploaded."""

    step: int
    epoch: int
    # Intervals of the sequence of `epoch` that this node has trained in this attempt, up to `step`
    done: tuple[Interval, ...]
    keras: Flavour
    of_all: bool = False  # All nodes have trained these: the checkpoint is whole without a word of the others
    rows_aside: int = 0  # Number of these rows that were set aside
    in_doubt: int = 0  # Other rows that may be in the weights, from broken-off executions
    # This node's uploads: it is the chief, or wrote a part of the chief's checkpoint
    files: tuple[StagedFile, ...] = ()
    folder: str = ""  # Their folder in the staging folder; "" for that of the checkpoint's name
    others: tuple[str, ...] = ()  # Files of other nodes that belong to the chief's checkpoint
    error: str = ""  # Why the files are missing; "" if they are there
    loss: EpochLoss = EpochLoss()  # Training loss of `epoch` so far


class Finished(NodeMessage):
    """A trainer has done all its work, and waits for the order to stop."""

    step: int
    leads: bool = True  # It has decided for all, and its files are kept
    early: bool = False  # A loop of the user's own has left epochs untrained
    kept: Kept | None = None  # The model's weights, if the best are kept; from the node that evaluates
    model: tuple[StagedFile, ...] = ()  # Files of the exported model in the staging folder
    folder: str = "model"  # Folder of the model in the staging folder
    # Why sparktf's own loop ended with epochs left; from the leader
    stopped: Stopped | None = None
    comparison: Comparison | None = None  # The gate's outcome; from the node that exports the model
    ending: Ending | None = None  # Time since the last update, if the node trained in sparktf's own loop
