"""The messages about rows that Spark feeds: leases of splits, the headers of the data channel, and what came of it."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.sequence import Interval, Stream
from sparktf.wire.sender import NodeMessage


class DataAddress(Message):
    """Where a node takes record batches.

    Attributes:
        host: Its host's name.
        socket: Path of a unix socket on that host.
        location: What Arrow Flight calls from other hosts; "" where all nodes are on this one.
    """

    host: str
    socket: str
    location: str = ""


class StagedShare(Message):
    """A share that feeders bring.

    Attributes:
        done: What of the epoch sequence is trained already.
        keep: Keep what comes for later epochs.
        again: Train on what was kept; no feeder comes.
    """

    done: tuple[Interval, ...] = ()
    keep: bool = False
    again: bool = False


class Span(Message):
    """Which rows a call of the data channel is about.

    Attributes:
        split: Partition of the DataFrame; -1 where the call is about none in particular.
        turn: How often Spark had fed the epoch before: more than once where what lost nodes had is fed again.
    """

    attempt: int
    stream: Stream
    epoch: int
    split: int = -1
    turn: int = 0


class Offer(Span):
    """A feeder has a split for a node.

    Attributes:
        done: What of it is trained already, numbered in the epoch's sequence, where it is fed again.
    """

    done: tuple[Interval, ...] = ()


class LeaseRequest(Message):
    """A feeder asks which node gets its split.

    Attributes:
        jvm: Identity of its executor, as an agent there registers it.
    """

    span: Span
    host: str
    jvm: str


class Lease(Message):
    """The one node that gets the split: the same for every feeder that asks, while that node lives.

    Attributes:
        data: Where it takes rows; None where no node does for the moment, and where it is `sealed`.
        sealed: It is not wanted: all of it is with nodes already.
        done: See `Offer`.
    """

    data: DataAddress | None = None
    sealed: bool = False
    done: tuple[Interval, ...] = ()


class SplitEnd(Message):
    """A feeder has sent all rows of its split."""

    rows: int


class Sealed(NodeMessage):
    """A whole split is with a node."""

    span: Span
    rows: int


class Holding(Message):
    """The rows that a worker under parameter servers has of an epoch that Spark feeds.

    Attributes:
        in_hand: Rows that no other node can take: read ahead, or handed out, and not marked as trained.
        moves: How often parts have come to what waits for training, or left it.
        receipts: Number of the last receipt that it has made.
    """

    in_hand: int
    moves: int
    receipts: int


class WorkRequest(NodeMessage):
    """A node has run dry.

    Attributes:
        starved_s: Seconds since feeders last brought it something.
        holding: What it has besides; None where that follows from what it has trained.
    """

    span: Span
    starved_s: float
    holding: Holding | None = None


class Work(Message):
    """The options of a node that has run dry.

    Attributes:
        ended: No row will come any more in this epoch.
        fed: Spark has brought all that there is, for the moment.
        rows: How many that are, of all nodes together; None while Spark is at it for the first time.
        peers: Nodes that may have rows to give, those with most first.
    """

    ended: bool
    fed: bool = False
    rows: int | None = None
    peers: tuple[DataAddress, ...] = ()


class Given(Message):
    """Rows `[start, stop)` of a permuted shuffle block, which a node gives to another with the block's data.

    Attributes:
        first_row: Number of the block's first row in its split.
    """

    split: int
    first_row: int
    start: int
    stop: int
