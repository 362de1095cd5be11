"""The messages about rows that Spark feeds: leases of splits, headers of the data channel, and results."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.sequence import Interval, Stream
from sparktf.wire.sender import NodeMessage


class DataAddress(Message):
    """The address at which a node takes record batches."""

    host: str  # Name of its host
    socket: str  # Path of a unix socket on that host
    location: str = ""  # Arrow Flight's URL for other hosts; "" if all nodes are on this one


class StagedShare(Message):
    """A share that feeders bring."""

    done: tuple[Interval, ...] = ()  # Trained intervals of the epoch sequence
    keep: bool = False  # Keep the rows for later epochs
    again: bool = False  # Train on the kept rows; no feeder comes
    generation: int = 1  # Of the gang's members that it is for
    # An earlier generation had the epoch: feeders come for what that has not trained, also for splits that are here
    rest: bool = False


class Span(Message):
    """The rows that a call of the data channel is about."""

    attempt: int
    stream: Stream
    epoch: int
    split: int = -1  # Partition of the DataFrame; -1 for none in particular
    turn: int = 0  # How often Spark had fed the epoch before: more than 0 if rows of lost nodes are fed again
    generation: int = 1  # Of the members of a synchronous gang that it is fed to


class Offer(Span):
    """A feeder offers a split to a node."""

    # Its trained intervals, numbered in the epoch sequence, if it is fed again
    done: tuple[Interval, ...] = ()


class LeaseRequest(Message):
    """A feeder asks for the node of its split."""

    span: Span
    host: str
    jvm: str  # Identity of its executor, as registered by an agent there


class Lease(Message):
    """The one node that gets the split: the same for every feeder that asks, while that node lives."""

    # Address of the node; None if there is none at the moment, and if the split is `sealed`
    data: DataAddress | None = None
    sealed: bool = False  # The split is not wanted: its rows are already on nodes
    done: tuple[Interval, ...] = ()  # See `Offer`


class SplitEnd(Message):
    """A feeder has sent all rows of its split."""

    rows: int


class Sealed(NodeMessage):
    """A whole split is with a node."""

    span: Span
    rows: int


class Holding(Message):
    """The rows of a fed epoch that a worker under parameter servers has."""

    in_hand: int  # Rows that no other node can take: read ahead, or handed out, and not marked as trained
    moves: int  # Number of times that parts have joined or left the queue of its untrained rows
    receipts: int  # Number of its last receipt


class WorkRequest(NodeMessage):
    """A node has no rows left."""

    span: Span
    starved_s: float  # Seconds since feeders last brought rows to it
    holding: Holding | None = None  # Its other rows; None if these follow from the rows it has trained


class Work(Message):
    """The options of a node without rows."""

    ended: bool  # No rows will come in this epoch any more
    fed: bool = False  # Spark has brought all rows, for the moment
    rows: int | None = None  # Their number over all nodes; None while Spark feeds the epoch for the first time
    peers: tuple[DataAddress, ...] = ()  # Nodes that may have rows to give, those with the most first


class Given(Message):
    """Rows `[start, stop)` of a permuted shuffle block, given to another node with the block's data."""

    split: int
    first_row: int  # Number of the block's first row in its split
    start: int
    stop: int
