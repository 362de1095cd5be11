"""The messages of the control channel. Each action is a name, a request and an answer, all JSON.

Agents and trainers call, the driver answers; commands travel in the answers to heartbeats.
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from pydantic import Field

from sparktf.errors import ErrorRecord
from sparktf.message import Message
from sparktf.results.carried import Carried
from sparktf.results.keep import KeepRule
from sparktf.results.result import NodeInput
from sparktf.results.usage import Usage
from sparktf.sequence import Assignment, Stream
from sparktf.topology import NodeId
from sparktf.wire.beats import QUICK_S
from sparktf.wire.data import DataAddress, StagedShare
from sparktf.wire.security import ControlAccess
from sparktf.wire.sender import NodeMessage, TrainerKey
from sparktf.wire.trainer_spec import TrainerSpec


class Action(enum.StrEnum):
    """Every action that the control server knows."""

    REGISTER = "register"
    AGENT_HEARTBEAT = "agent-heartbeat"
    TRAINER_EXITED = "trainer-exited"
    READY = "ready"
    HEARTBEAT = "heartbeat"
    ASSIGNMENT = "assignment"
    METRICS = "metrics"
    EPOCH_DONE = "epoch-done"
    UPLOADED = "uploaded"
    FINISHED = "finished"
    FAILED = "failed"
    WARNING = "warning"
    LEASE = "lease"
    SEALED = "sealed"
    WORK = "work"
    LEASE_BLOCKS = "lease-blocks"
    FETCHED = "fetched"
    NEXT_COMMIT = "next-commit"
    DEAL = "deal"
    RESERVE = "reserve"


Flavour = Literal["keras", "tf_keras", "none"]
"""Which Keras a model is of; "none" where a low-level loop keeps none."""


class Ack(Message):
    """Nothing but "understood"."""


# ---- agents ----


class Registration(Message):
    """An agent presents itself.

    Attributes:
        agent: Unique id of this agent process.
        partition: The Spark partition it runs for; there is one agent for each.
        task: Number of its Spark task: of two agents of one partition, Spark started the one with the greater later.
        jvm: Identity of its executor: "<pid>@<start time>" of the JVM on `host`.
        container: Id of its YARN container, "" elsewhere.
        address: "host:port" that the agent holds for its next trainer.
        before: Who it was before it lost its place, "" if it is new. It displaces nobody.
        problems: Why no trainer could start here, such as a model module that is not found; empty if one could.
    """

    agent: str
    partition: int
    host: str
    jvm: str
    address: str
    versions: dict[str, str]
    task: int = 0
    container: str = ""
    before: str = ""
    problems: tuple[str, ...] = ()


class Registered(Message):
    """Whether the agent has its place. One that has not (another agent has the partition) asks again."""

    accepted: bool
    reason: str = ""


class AgentHeartbeat(Message):
    """Sent as often as the answers say.

    Attributes:
        number: As in `NodeMessage`.
        trainer: The one that runs here, or None.
    """

    agent: str
    number: int
    address: str
    trainer: TrainerKey | None = None


class Order(enum.StrEnum):
    """What an agent is to do now.

    Attributes:
        REJOIN: It has lost its place: to end its trainer, and to register anew.
    """

    WAIT = "wait"
    START = "start"
    STOP = "stop"
    REJOIN = "rejoin"
    DISMISS = "dismiss"


class Bootstrap(Message):
    """The one line on a trainer's stdin, from its agent.

    Attributes:
        work: Folder for local files; the trainer deletes it at its end.
        parent: Process that has started the trainer, without which it does not live: its agent, or the nursery.
    """

    spec: TrainerSpec
    access: ControlAccess
    work: str
    parent: int


class Orders(Message):
    """The answer to an agent's heartbeat.

    Attributes:
        trainer: Comes with START.
        beat_s: When the next heartbeat is wanted, from now.
    """

    order: Order
    trainer: TrainerSpec | None = None
    beat_s: float = QUICK_S


class TrainerExited(NodeMessage):
    """A trainer process ended, says its agent.

    Attributes:
        exit_code: As in `subprocess`: negative for a signal.
    """

    agent: str
    exit_code: int
    time_s: float
    log: str
    log_tail: str


# ---- trainers ----


class Ready(NodeMessage):
    """The compiled model is built and checked, the checkpoint restored: the trainer could begin.

    Attributes:
        data: Where feeders find this node, if Spark feeds it.
        keep: By what the best weights are known, if they are kept.
        carried: What the leader has taken over from another run's model, if it begins from one.
    """

    replicas: int
    keras: Flavour
    versions: dict[str, str]
    weights: int
    data: DataAddress | None = None
    keep: KeepRule | None = None
    carried: Carried | None = None


class Progress(Message):
    """Where a trainer is.

    Attributes:
        rows_trained: Rows of this node's share of the epoch that went into updates.
    """

    epoch: int = 0
    step: int = 0
    rows_trained: int = 0
    loss: float | None = None
    phase: str = "starting"


class Heartbeat(NodeMessage):
    """Sent by a trainer, as often as the answers say; with what its process has used, where it tells of that."""

    progress: Progress
    usage: Usage | None = None


class StopOrder(Message):
    """The attempt is over: exit."""

    kind: Literal["stop"] = "stop"


class WorkerPlace(Message):
    """Who a worker is now.

    Attributes:
        incarnation: Earlier ones are lost.
        address: Where its server listens; "" while none does. `stand_in`: the coordinator's own has the place then.
    """

    node: NodeId
    incarnation: int
    address: str = ""
    stand_in: bool = False


class WorkersOrder(Message):
    """Tells the coordinator of workers that are not those the attempt began with; the whole truth of now, each time."""

    kind: Literal["workers"] = "workers"
    workers: tuple[WorkerPlace, ...]


TrainerOrder = Annotated[StopOrder | WorkersOrder, Field(discriminator="kind")]
"""One order to a trainer."""


class TrainerOrders(Message):
    """The answer to a trainer's heartbeat: what it is to do, in this order.

    Attributes:
        beat_s: When the next heartbeat is wanted, from now.
    """

    orders: tuple[TrainerOrder, ...] = ()
    beat_s: float = QUICK_S


class AssignmentRequest(NodeMessage):
    """A trainer asks for its share of one epoch."""

    stream: Stream
    epoch: int


class AssignmentAnswer(Message):
    """The share of the node that asked: planned row groups, or what feeders bring."""

    assignment: Assignment | None = None
    staged: StagedShare | None = None


class Metrics(NodeMessage):
    """Metrics of a stream over all workers, sent by the chief, or by an evaluator, of a checkpoint."""

    stream: Stream
    epoch: int
    step: int
    rows: int
    values: dict[str, float]


class EpochDone(NodeMessage):
    """A node has gone through its share of an epoch.

    Attributes:
        rows_fed: Rows that its feed has gone through in this attempt; `rows_trained` those that went into updates,
            `rows_aside` those that were left out because they failed a check.
        dropped: Gradients that came too late for their update.
        complete: False where `train.max_steps` or the time ended the epoch early.
        input: What the node has read for it.
    """

    epoch: int
    step: int
    rows_fed: int
    rows_trained: int
    complete: bool
    rows_aside: int = 0
    dropped: int = 0
    input: NodeInput = NodeInput()


class Failed(NodeMessage):
    """A trainer fails; sent once, before it exits."""

    record: ErrorRecord


class Warned(NodeMessage):
    """Something that the run outlives and its owner should know."""

    text: str
