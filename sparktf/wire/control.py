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
    """An agent presents itself."""

    agent: str  # Unique id of this agent process
    partition: int  # The Spark partition it runs for; there is one agent for each
    host: str
    jvm: str  # Identity of its executor: "<pid>@<start time>" of the JVM on `host`
    address: str  # "host:port" that the agent holds for its next trainer
    versions: dict[str, str]
    # Number of its Spark task: of two agents of one partition, Spark started the one with the greater later
    task: int = 0
    container: str = ""  # Id of its YARN container, "" elsewhere
    before: str = ""  # Who it was before it lost its place, "" if it is new. It displaces nobody.
    # Why no trainer could start here, such as a model module that is not found; empty if one could
    problems: tuple[str, ...] = ()


class Registered(Message):
    """Whether the agent has its place. One that has not (another agent has the partition) asks again."""

    accepted: bool
    reason: str = ""


class AgentHeartbeat(Message):
    """Sent as often as the answers say."""

    agent: str
    number: int  # As in `NodeMessage`
    address: str
    trainer: TrainerKey | None = None  # The one that runs here, or None


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
    """The one line on a trainer's stdin, from its agent."""

    spec: TrainerSpec
    access: ControlAccess
    work: str  # Folder for local files; the trainer deletes it at its end
    parent: int  # Process that has started the trainer, without which it does not live: its agent, or the nursery


class Orders(Message):
    """The answer to an agent's heartbeat."""

    order: Order
    trainer: TrainerSpec | None = None  # Comes with START
    beat_s: float = QUICK_S  # When the next heartbeat is wanted, from now


class TrainerExited(NodeMessage):
    """A trainer process ended, says its agent."""

    agent: str
    exit_code: int  # As in `subprocess`: negative for a signal
    time_s: float
    log: str
    log_tail: str


# ---- trainers ----


class Ready(NodeMessage):
    """The compiled model is built and checked, the checkpoint restored: the trainer could begin."""

    replicas: int
    keras: Flavour
    versions: dict[str, str]
    weights: int
    data: DataAddress | None = None  # Where feeders find this node, if Spark feeds it
    keep: KeepRule | None = None  # By what the best weights are known, if they are kept
    carried: Carried | None = None  # What the leader has taken over from another run's model, if it begins from one


class Progress(Message):
    """Where a trainer is."""

    epoch: int = 0
    step: int = 0
    rows_trained: int = 0  # Rows of this node's share of the epoch that went into updates
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
    """Who a worker is now."""

    node: NodeId
    incarnation: int  # Earlier ones are lost
    # Where its server listens; "" while none does. `stand_in`: the coordinator's own has the place then.
    address: str = ""
    stand_in: bool = False


class WorkersOrder(Message):
    """Tells the coordinator of workers that are not those the attempt began with; the whole truth of now, each time."""

    kind: Literal["workers"] = "workers"
    workers: tuple[WorkerPlace, ...]


TrainerOrder = Annotated[StopOrder | WorkersOrder, Field(discriminator="kind")]
"""One order to a trainer."""


class TrainerOrders(Message):
    """The answer to a trainer's heartbeat: what it is to do, in this order."""

    orders: tuple[TrainerOrder, ...] = ()
    beat_s: float = QUICK_S  # When the next heartbeat is wanted, from now


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
    """A node has gone through its share of an epoch."""

    epoch: int
    step: int
    # Rows that its feed has gone through in this attempt; `rows_trained` those that went into updates, `rows_aside`
    # those that were left out because they failed a check
    rows_fed: int
    rows_trained: int
    complete: bool  # False where `train.max_steps` or the time ended the epoch early
    rows_aside: int = 0
    dropped: int = 0  # Gradients that came too late for their update
    input: NodeInput = NodeInput()  # What the node has read for it


class Failed(NodeMessage):
    """A trainer fails; sent once, before it exits."""

    record: ErrorRecord


class Warned(NodeMessage):
    """Something that the run outlives and its owner should know."""

    text: str
