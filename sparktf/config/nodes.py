"""The section `cluster` of the configuration: the gang's nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from sparktf.config.section import Section, Switch
from sparktf.config.strategies import STRATEGIES, Strategy, StrategyTraits
from sparktf.topology import GangShape

_LAST_PORT = 65535


class NodeMemory(NamedTuple):
    """Memory of one process of a gang."""

    mib: int
    what: str = "a trainer"  # Which process, in words
    key: str = "cluster.trainer_memory_mib"  # The setting that determines it


class ClusterConfig(Section):
    """The gang of nodes."""

    KEY: ClassVar = "cluster"

    strategy: Strategy = Field(
        default="multi_worker_mirrored",
        description="`single`: one process; `mirrored`: devices of one node; `multi_worker_mirrored`: several nodes, "
        "each with its devices; `parameter_server`: several nodes whose updates do not wait for each other: "
        "[async.md](async.md).",
    )
    engine: Literal["spark", "tensorflowonspark"] = Field(
        default="spark",
        description="Who reserves the executors: a job of Spark's own, or TensorFlowOnSpark's `TFCluster` "
        "([from-tensorflowonspark.md](from-tensorflowonspark.md#the-package-as-an-engine)).",
    )
    workers: PositiveInt = Field(
        default=2, description="Nodes that train, of a gang of several (1 for `single` and `mirrored`)."
    )
    ps: NonNegativeInt = Field(
        default=0, description="Parameter servers: nodes that hold the model's variables, under `parameter_server`."
    )
    evaluator: bool = Field(
        default=False,
        description="One more node, under any strategy, which evaluates checkpoints as they are committed, the newest "
        "first, while training goes on; without it training waits for each epoch's evaluation: "
        "[evaluation.md](evaluation.md).",
    )
    min_workers: PositiveInt = Field(
        default=1,
        description="After a lost node, an attempt may start with as few as this many when no replacement comes; under "
        "`parameter_server` it also goes on with as few.",
    )
    devices: PositiveInt = Field(
        default=1,
        description="Devices on which each node trains, under `mirrored` and `multi_worker_mirrored`: its GPUs, or "
        "logical devices of its CPU.",
    )
    placement: Literal["data", "any"] = Field(
        default="data",
        description="`data`: on YARN, executors are asked for at the hosts that hold the data; `any`: wherever.",
    )
    trainer_memory_mib: PositiveInt = Field(
        default=2048,
        description="Memory of one trainer process in MiB: TensorFlow, the model, rows read ahead. On YARN it is asked "
        "for as a part of `spark.executor.memoryOverhead`: [yarn.md](../cluster/yarn.md).",
    )
    ps_memory_mib: PositiveInt | None = Field(
        default=None,
        description="Memory of one parameter server in MiB, if not as much as `trainer_memory_mib`. Executors have one "
        "size: each is asked for with the larger of the two.",
    )
    control_port: int = Field(
        default=0,
        ge=0,
        le=_LAST_PORT,
        description="Port of the driver's control server; 0 takes a free one. On one machine there is none.",
    )
    node_ports: Annotated[str, Field(pattern=r"^(0|\d+-\d+)$")] = Field(
        default="0",
        description="Range such as `30000-30100` for the ports of trainers on the executors: TensorFlow's, and one "
        "more where Spark feeds. 0 takes free ones.",
    )
    collectives: Literal["auto", "sparktf", "tensorflow"] = Field(
        default="auto",
        description="What sums gradients over the workers of `multi_worker_mirrored`: sparktf's own connections, or "
        "TensorFlow's collectives. `auto`: TensorFlow's for a `train(node)` and where a node sees a GPU, else "
        "sparktf's: [sync.md](sync.md).",
    )
    threads: PositiveInt | None = Field(
        default=None,
        description="Threads with which TensorFlow computes an operation in each worker. `TF_NUM_INTRAOP_THREADS` in "
        "the executors' environment, and `tf.config.threading` in the model's code, come first. By default the workers "
        "of a host divide its processors among themselves where all take part in every update; others take all: "
        "[sync.md](sync.md#threads).",
    )
    nursery: Switch = Field(
        default="auto",
        description="Whether each executor has TensorFlow imported beforehand by a process from which the trainers of "
        "its nodes are forked; one that cannot be forked starts from nothing. `auto`: where no GPU is seen.",
    )

    @field_validator("node_ports")
    @classmethod
    def _is_a_range(cls, ports: str) -> str:
        first, _, last = ports.partition("-")
        if ports != "0" and not 1 <= int(first) <= int(last) <= _LAST_PORT:
            raise ValueError(f"{ports!r}: must be two ports from 1 to {_LAST_PORT}, the lower one first, or 0")
        return ports

    @property
    def traits(self) -> StrategyTraits:
        """The strategy's row in `STRATEGIES`."""
        return STRATEGIES[self.strategy]

    @property
    def shape(self) -> GangShape:
        """The number of trainer processes by role."""
        workers = self.workers if self.traits.several_workers else 1
        if self.traits.has_servers:
            trains = GangShape.with_servers(workers, self.ps, self.min_workers)
        else:
            trains = GangShape.of_workers(workers, self.min_workers)
        return trains.with_evaluator() if self.evaluator else trains

    @property
    def nodes(self) -> int:
        """The number of trainer processes."""
        return self.shape.nodes

    @property
    def in_words(self) -> str:
        """The settings that determine the number of nodes, and that number."""
        parts = [f"cluster.workers: {self.shape.workers}"]
        if self.traits.has_servers:
            parts += [f"cluster.ps: {self.ps}", "a coordinator"]
        if self.evaluator:
            parts.append("cluster.evaluator")
        if len(parts) == 1:
            return f"{parts[0]} nodes"
        return f"{', '.join(parts[:-1])} and {parts[-1]}: {self.nodes} nodes"

    @property
    def sizes(self) -> str:
        """The settings to lower for fewer nodes."""
        sizes = ["cluster.workers"]
        sizes += ["cluster.ps"] if self.traits.has_servers else []
        sizes += ["cluster.evaluator"] if self.evaluator else []
        return " or ".join(filter(None, [", ".join(sizes[:-1]), sizes[-1]]))

    @property
    def may_be_fed(self) -> bool:
        """Whether Spark can feed all nodes: an evaluator reads files itself."""
        return not self.evaluator

    @property
    def updates_together(self) -> bool:
        """Whether all workers take part in every update."""
        return self.traits.updates_together

    @property
    def outlives_losses(self) -> bool:
        """Whether an attempt may survive the loss of a worker or an evaluator, which is then replaced.

        A synchronous gang does over sparktf's own connections; whether `auto` chooses these, the nodes decide.
        """
        is_gang = self.updates_together and self.shape.workers > 1 and self.collectives != "tensorflow"
        return self.traits.outlives_losses or self.evaluator or is_gang

    @property
    def node_memory(self) -> NodeMemory:
        """Memory of the gang's largest process: executors have one size, which has to fit it."""
        if self.ps_memory_mib is not None and self.ps_memory_mib > self.trainer_memory_mib:
            return NodeMemory(self.ps_memory_mib, "a parameter server", "cluster.ps_memory_mib")
        return NodeMemory(self.trainer_memory_mib)

    @property
    def replicas(self) -> int:
        """The number of model replicas that take part in an update."""
        if not self.updates_together:
            return 1
        return self.shape.workers * self.devices

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        if self.devices > 1 and not self.traits.splits_devices:
            raise ValueError(f"devices: {self.devices} needs strategy: mirrored or multi_worker_mirrored")
        if self.traits.has_servers and not self.ps:
            raise ValueError(f"strategy: {self.strategy} needs parameter servers: set ps, to 1 or more")
        if self.ps and not self.traits.has_servers:
            raise ValueError(f"ps: {self.ps} needs strategy: parameter_server")
        if self.ps_memory_mib is not None and not self.ps:
            raise ValueError(f"ps_memory_mib: {self.ps_memory_mib} needs strategy: parameter_server")
        return self
