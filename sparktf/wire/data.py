"""The messages about rows that Spark feeds: leases of splits, the headers of the data channel, and what came of it."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.sequence import Interval, Stream
from sparktf.wire.sender import NodeMessage


class DataAddress(Message):
    """Where a node takes record batches."""

    host: str  # Its host's name
    socket: str  # Path of a unix socket on that host
    location: str = ""  # What Arrow Flight calls from other hosts; "" where all nodes are on this one


class StagedShare(Message):
    """A share that feeders bring."""

    done: tuple[Interval, ...] = ()  # What of the epoch sequence is trained already
    keep: bool = False  # Keep what comes for later epochs
    again: bool = False  # Train on what was kept; no feeder comes


class Span(Message):
    """Which rows a call of the data channel is about."""

    attempt: int
    stream: Stream
    epoch: int
    split: int = -1  # Partition of the DataFrame; -1 where the call is about none in particular
    turn: int = 0  # How often Spark had fed the epoch before: more than once where what lost nodes had is fed again


class Offer(Span):
    """A feeder has a split for a node."""

    # What of it is trained already, numbered in the epoch's sequence, where it is fed again
    done: tuple[Interval, ...] = ()


class LeaseRequest(Message):
    """A feeder asks which node gets its split."""

    span: Span
    host: str
    jvm: str  # Identity of its executor, as an agent there registers it


class Lease(Message):
    """The one node that gets the split: the same for every feeder that asks, while that node lives."""

    # Where it takes rows; None where no node does for the moment, and where it is `sealed`
    data: DataAddress | None = None
    sealed: bool = False  # It is not wanted: all of it is with nodes already
    done: tuple[Interval, ...] = ()  # See `Offer`


class SplitEnd(Message):
    """A feeder has sent all rows of its split."""

    rows: int


class Sealed(NodeMessage):
    """A whole split is with a node."""

    span: Span
    rows: int


class Holding(Message):
    """The rows that a worker under parameter servers has of an epoch that Spark feeds."""

    in_hand: int  # Rows that no other node can take: read ahead, or handed out, and not marked as trained
    moves: int  # How often parts have come to what waits for training, or left it
    receipts: int  # Number of the last receipt that it has made


class WorkRequest(NodeMessage):
    """A node has run dry."""

    span: Span
    starved_s: float  # Seconds since feeders last brought it something
    holding: Holding | None = None  # What it has besides; None where that follows from what it has trained


class Work(Message):
    """The options of a node that has run dry."""

    ended: bool  # No row will come any more in this epoch
    fed: bool = False  # Spark has brought all that there is, for the moment
    rows: int | None = None  # How many that are, of all nodes together; None while Spark is at it for the first time
    peers: tuple[DataAddress, ...] = ()  # Nodes that may have rows to give, those with most first


class Given(Message):
    """Rows `[start, stop)` of a permuted shuffle block, which a node gives to another with the block's data."""

    split: int
    first_row: int  # Number of the block's first row in its split
    start: int
    stop: int
