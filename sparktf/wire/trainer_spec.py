"""What a node's process is given: who it is and where, and what it does there, a training or a function."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sparktf.config.job import JobConfig
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.feature import FeedSpec
from sparktf.hadoop import HadoopConf
from sparktf.message import Message
from sparktf.results.time_limit import TimeLimit
from sparktf.rundir import RunDirectory
from sparktf.sequence import Stream
from sparktf.topology import ClusterSpec, NodeId
from sparktf.wire.guest import GuestNode
from sparktf.wire.model_source import ModelSource
from sparktf.wire.restore import Restore
from sparktf.wire.sender import Sender, TrainerKey


class Placed(Message):
    """Who a node is, and where, for one attempt."""

    run_id: str
    run_root: str  # What it leaves lies below, see `rundir`
    attempt: int
    node: NodeId
    cluster: ClusterSpec
    hadoop: HadoopConf = HadoopConf()  # Where the file systems are
    incarnation: int = 0  # Which of the trainers that the node has had in the attempt

    @property
    def sender(self) -> Sender:
        """What every message of this trainer begins with."""
        return Sender(attempt=self.attempt, node=self.node, incarnation=self.incarnation)

    @property
    def trainer(self) -> TrainerKey:
        """Which trainer this makes."""
        return TrainerKey(**self.sender)

    @property
    def leads(self) -> bool:
        """Whether this trainer decides for all of them, and its files are kept."""
        return self.node == self.cluster.leader


class Training(Placed):
    """A node that trains."""

    work: Literal["training"] = "training"
    config: JobConfig
    feed: FeedSpec
    rows: dict[Stream, int]  # Rows of each planned stream in one epoch
    assets: dict[str, Any]  # What `prepare` returned
    staged: tuple[Stream, ...] = ()  # Streams that Spark feeds, whose rows nobody knows beforehand
    source_version: int | None = None  # Which version of a table the rows are of, if it has any
    restore: Restore | None = None
    # What was left of the run's time when the attempt began; None where there is no limit
    time_limit: TimeLimit | None = None
    init: ModelSource | None = None  # Whose weights it begins from, where there is nothing to restore
    champion: ModelSource | None = None  # What the trained model is compared with
    anchor: ModelSource | None = None  # What it is compared with besides: see `Models`

    @property
    def timeouts(self) -> TimeoutsConfig:
        """How long it waits for what."""
        return self.config.timeouts

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the user's that it runs."""
        return tuple(self.config.modules.values())

    @property
    def rundir(self) -> RunDirectory:
        """The run's directory."""
        return RunDirectory(self.run_root, self.config.name, self.run_id)

    def has(self, stream: Stream) -> bool:
        """Whether there is such a stream."""
        return stream in self.staged or bool(self.rows.get(stream))


class Function(Placed):
    """A node that runs a function of another package's program."""

    work: Literal["function"] = "function"
    function: str  # "module:function"
    guest: GuestNode  # Who the node is to its function
    timeouts: TimeoutsConfig  # How long it waits for what

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the user's that it runs."""
        return (self.function.partition(":")[0],)

    @property
    def rundir(self) -> RunDirectory:
        """Where its log is kept."""
        return RunDirectory(self.run_root, "functions", self.run_id)


TrainerSpec = Annotated[Training | Function, Field(discriminator="work")]
"""Who a node is, where, and what it does."""
