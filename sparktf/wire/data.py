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
        location: What Arrow Flight calls from other hosts.
    """

    host: str
    socket: str
    location: str


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
    """

    attempt: int
    stream: Stream
    epoch: int
    split: int = -1


class LeaseRequest(Message):
    """A feeder asks which node gets its split.

    Attributes:
        jvm: Identity of its executor, as an agent there registers it.
    """

    span: Span
    host: str
    jvm: str


class Lease(Message):
    """The one node that gets the split in this attempt, whoever feeds it; the same for every feeder that asks."""

    data: DataAddress


class SplitEnd(Message):
    """A feeder has sent all rows of its split."""

    rows: int


class Sealed(NodeMessage):
    """A whole split is with a node."""

    span: Span
    rows: int


class WorkRequest(NodeMessage):
    """A node has run dry.

    Attributes:
        starved_s: Seconds since feeders last brought it something.
    """

    span: Span
    starved_s: float


class Work(Message):
    """What a node that has run dry can do.

    Attributes:
        ended: No feeder will bring anything more in this epoch.
        peers: Nodes that may have rows to give, those with most first.
    """

    ended: bool
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
