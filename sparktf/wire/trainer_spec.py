"""The specification of a node's process: its identity and place, and its work, a training or a function."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sparktf.config.job import JobConfig
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.feature import FeedSpec
from sparktf.hadoop import HadoopConf
from sparktf.message import Message
from sparktf.results.time_limit import TimeLimit
from sparktf.rundir import RunDirectory, writers_name
from sparktf.sequence import Stream
from sparktf.topology import ClusterSpec, NodeId
from sparktf.wire.guest import GuestNode
from sparktf.wire.model_source import ModelSource
from sparktf.wire.restore import Restore
from sparktf.wire.sender import Sender, TrainerKey

THREADS = "TF_NUM_INTRAOP_THREADS"
"""The variable by which TensorFlow is told with how many threads to compute an operation."""

Collectives = Literal["sparktf", "tensorflow"]
"""The two ways to sum gradients over workers."""


class Placed(Message):
    """The identity and the place of a node in one attempt."""

    run_id: str
    run_root: str  # Root of its output: see `rundir`
    attempt: int
    node: NodeId
    cluster: ClusterSpec
    hadoop: HadoopConf = HadoopConf()  # Configuration of the file systems
    incarnation: int = 0  # Number of the node's trainer in the attempt

    @property
    def sender(self) -> Sender:
        """The sender of this trainer's messages."""
        return Sender(attempt=self.attempt, node=self.node, incarnation=self.incarnation)

    @property
    def trainer(self) -> TrainerKey:
        """The key of this trainer."""
        return TrainerKey(**self.sender)

    @property
    def leads(self) -> bool:
        """Whether this trainer decides for all, and its files are kept."""
        return self.node == self.cluster.leader


class Training(Placed):
    """A node that trains."""

    work: Literal["training"] = "training"
    config: JobConfig
    feed: FeedSpec
    rows: dict[Stream, int]  # Rows of each planned stream in one epoch
    assets: dict[str, Any]  # Result of `prepare`
    staged: tuple[Stream, ...] = ()  # Streams that Spark feeds, whose number of rows is unknown beforehand
    source_version: int | None = None  # Version of the table that is read, if it has versions
    restore: Restore | None = None
    # The time left of the run's limit when the attempt began; None without a limit
    time_limit: TimeLimit | None = None
    init: ModelSource | None = None  # The model whose weights it begins from if there is no checkpoint
    champion: ModelSource | None = None  # The model that the trained one is compared with
    anchor: ModelSource | None = None  # Another model to compare with: see `Models`
    collectives: Collectives = "tensorflow"  # Of several workers that train together
    threads: int | None = None  # That TensorFlow is to compute an operation with; None for as many as it likes
    why_collectives: str = ""  # For people; "" where there is nothing to sum

    @property
    def summed_by(self) -> str:
        """The collectives that sum gradients, with the reason; "" where there is nothing to sum."""
        return f"{self.collectives}: {self.why_collectives}" if self.why_collectives else ""

    @property
    def outlives_losses(self) -> bool:
        """Whether the members of a synchronous gang go on without one that is lost."""
        return self.collectives == "sparktf"

    def upload_name(self, what: str) -> str:
        """Returns the folder's name of a checkpoint or "model" that this node uploads: others may come to lead."""
        return writers_name(what, self.node, self.incarnation) if self.outlives_losses else what

    @property
    def timeouts(self) -> TimeoutsConfig:
        """The time limits of the node."""
        return self.config.timeouts

    @property
    def modules(self) -> tuple[str, ...]:
        """The user's modules that it runs."""
        return tuple(self.config.modules.values())

    @property
    def rundir(self) -> RunDirectory:
        return RunDirectory(self.run_root, self.config.name, self.run_id)

    def has(self, stream: Stream) -> bool:
        """Whether the run has this stream."""
        return stream in self.staged or bool(self.rows.get(stream))


class Function(Placed):
    """A node that runs a function of another package's program."""

    work: Literal["function"] = "function"
    function: str  # "module:function"
    guest: GuestNode  # The node's identity for its function
    timeouts: TimeoutsConfig  # The time limits of the node

    @property
    def modules(self) -> tuple[str, ...]:
        """The user's modules that it runs."""
        return (self.function.partition(":")[0],)

    @property
    def rundir(self) -> RunDirectory:
        """The directory of its log."""
        return RunDirectory(self.run_root, "functions", self.run_id)


TrainerSpec = Annotated[Training | Function, Field(discriminator="work")]
"""The specification of a node's process."""
