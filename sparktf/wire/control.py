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
from sparktf.results.pace import UpdatePace
from sparktf.results.result import NodeInput
from sparktf.results.usage import Usage
from sparktf.sequence import Assignment, Stream
from sparktf.topology import NodeId
from sparktf.wire.beats import QUICK_S
from sparktf.wire.data import DataAddress, StagedShare
from sparktf.wire.regrouping import GenerationOver, JoinersWait
from sparktf.wire.security import ControlAccess
from sparktf.wire.sender import NodeMessage, TrainerKey
from sparktf.wire.trainer_spec import TrainerSpec


class Action(enum.StrEnum):
    """All actions of the control server."""

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
    PRINTED = "printed"
    LEASE = "lease"
    SEALED = "sealed"
    WORK = "work"
    LEASE_BLOCKS = "lease-blocks"
    FETCHED = "fetched"
    NEXT_COMMIT = "next-commit"
    LEFT = "left"
    REGROUPED = "regrouped"
    DEAL = "deal"
    RESERVE = "reserve"
    LOOK = "look"


Flavour = Literal["keras", "tf_keras", "none"]
"""The Keras flavour of a model; "none" if a low-level loop keeps no model."""


class Ack(Message):
    """An acknowledgement without content."""


# ---- agents ----


class Registration(Message):
    """An agent registers."""

    agent: str  # Unique id of this agent process
    partition: int  # Its Spark partition; each has one agent
    host: str
    jvm: str  # Identity of its executor: "<pid>@<start time>" of the JVM on `host`
    address: str  # "host:port" reserved for its next trainer
    versions: dict[str, str]
    # Number of its Spark task: of two agents of one partition, the one with the greater number was started later
    task: int = 0
    container: str = ""  # Id of its YARN container, "" elsewhere
    sees_gpu: bool = False  # Whether its host shows a GPU
    processors: int = 0  # That its trainer may use; 0 where its environment says how many threads TensorFlow takes
    before: str = ""  # Its id before it lost its place, "" if it is new. It displaces no other agent.
    # Why no trainer can start here, such as a missing model module; empty if one can
    problems: tuple[str, ...] = ()


class Registered(Message):
    """Whether the agent has its place. An agent without one (another has the partition) asks again."""

    accepted: bool
    reason: str = ""


class AgentHeartbeat(Message):
    """A heartbeat of an agent."""

    agent: str
    number: int  # As in `NodeMessage`
    address: str
    trainer: TrainerKey | None = None  # The running trainer
    tokens: str = ""  # `edition_of` the delegation tokens that it has; "" for none
    store_keys: str = ""  # `keys_edition` of the secrets of object stores that it has; "" for none


class Order(enum.StrEnum):
    """An order to an agent."""

    WAIT = "wait"
    START = "start"
    STOP = "stop"
    REJOIN = "rejoin"  # It has lost its place: end the trainer, and register again
    DISMISS = "dismiss"


class Bootstrap(Message):
    """The only line on a trainer's stdin, from its agent."""

    spec: TrainerSpec
    access: ControlAccess
    work: str  # Folder for local files, which the trainer deletes at its end
    parent: int  # The process that started the trainer and whose end ends it: its agent, or the nursery


class Orders(Message):
    """The answer to an agent's heartbeat."""

    order: Order
    trainer: TrainerSpec | None = None  # Given with START
    beat_s: float = QUICK_S  # Time until the next heartbeat
    # A token file in base64, if the agent has another one than the driver
    tokens: str = Field(default="", repr=False)
    # Likewise a file of secrets of object stores
    store_keys: str = Field(default="", repr=False)


class TrainerExited(NodeMessage):
    """An agent reports the end of a trainer process."""

    agent: str
    exit_code: int  # As in `subprocess`: negative for a signal
    time_s: float
    log: str
    log_tail: str


# ---- trainers ----


class Ready(NodeMessage):
    """The trainer could begin: its compiled model is built and checked, and the checkpoint is restored."""

    replicas: int
    keras: Flavour
    versions: dict[str, str]
    weights: int
    data: DataAddress | None = None  # Address for feeders, if Spark feeds this node
    keep: KeepRule | None = None  # The rule for the best weights, if they are kept
    carried: Carried | None = None  # The weights that the leader has taken over from another run's model


AWAITS_EXPORT = "waiting for the export"
"""The phase of a worker that has nothing to do until the leader has stored all, or is lost."""


class Progress(Message):
    """The progress of a trainer."""

    epoch: int = 0
    step: int = 0
    rows_trained: int = 0  # Rows of this node's share of the epoch that went into updates
    loss: float | None = None
    phase: str = "starting"


class Heartbeat(NodeMessage):
    """A heartbeat of a trainer, with its process's resource usage, or its updates' pace, if it reports them."""

    progress: Progress
    usage: Usage | None = None
    pace: UpdatePace | None = None


class StopOrder(Message):
    """The attempt is over: the trainer is to exit."""

    kind: Literal["stop"] = "stop"


class WorkerPlace(Message):
    """The current incarnation of a worker, and its address."""

    node: NodeId
    incarnation: int  # Earlier ones are lost
    # Address of its server, "" for none. With `stand_in`, it is a stand-in server of the coordinator.
    address: str = ""
    stand_in: bool = False


class WorkersOrder(Message):
    """Tells the coordinator all current workers that replace those of the attempt's begin."""

    kind: Literal["workers"] = "workers"
    workers: tuple[WorkerPlace, ...]


TrainerOrder = Annotated[StopOrder | WorkersOrder | GenerationOver | JoinersWait, Field(discriminator="kind")]
"""An order to a trainer."""


class TrainerOrders(Message):
    """The answer to a trainer's heartbeat: its orders, to be followed in this sequence."""

    orders: tuple[TrainerOrder, ...] = ()
    beat_s: float = QUICK_S  # Time until the next heartbeat


class AssignmentRequest(NodeMessage):
    """A trainer asks for its share of an epoch."""

    stream: Stream
    epoch: int
    generation: int = 1  # Of the members that it is dealt to


class AssignmentAnswer(Message):
    """The share of the asking node: planned row groups, or rows from feeders."""

    assignment: Assignment | None = None
    staged: StagedShare | None = None
    is_early: bool = False  # Not all members of the generation have regrouped yet: ask again
    is_over: bool = False  # The generation has lost a member: leave it


class Metrics(NodeMessage):
    """Metrics of a stream over all workers, from the chief, or of a checkpoint, from an evaluator."""

    stream: Stream
    epoch: int
    step: int
    rows: int
    values: dict[str, float]

    def same_as(self, other: Metrics) -> bool:
        """Whether both are of the same weights: who comes to lead a gang tells again what may be told already."""
        return (self.stream, self.epoch, self.step) == (other.stream, other.epoch, other.step)


class EpochDone(NodeMessage):
    """A node has finished its share of an epoch."""

    epoch: int
    step: int
    # Rows that its feed has passed in this attempt: `rows_trained` went into updates, `rows_aside` failed a check
    rows_fed: int
    rows_trained: int
    complete: bool  # False where `train.max_steps` or the time ended the epoch early
    rows_aside: int = 0
    dropped: int = 0  # Gradients that arrived too late for their update
    input: NodeInput = NodeInput()  # The rows that the node has read for it


class Failed(NodeMessage):
    """A trainer has failed; sent once, before it exits."""

    record: ErrorRecord


class Warned(NodeMessage):
    """A problem that does not end the run."""

    text: str


class Printed(NodeMessage):
    """Lines that the user's code has printed on the leader, such as a callback."""

    text: str
