"""The messages about rows that Spark feeds: leases of splits, the headers of the data channel, and what came of it."""

from __future__ import annotations

from collections import Counter

from sparktf.plan import Interval, Message, Stream
from sparktf.topology import NodeId


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


class NodeInput(Message):
    """What a node has read of the training stream, in one epoch or several.

    Attributes:
        rows: By the way they came: "direct" from files; from feeders by "unix" socket on its own host or by "tcp";
            from a "peer" that had too many. Rows that were kept from an earlier epoch came then.
        given: Rows given to peers that had run dry.
        nbytes: Bytes read, of which `local_nbytes` lay, or were computed, on its own host.
        spilled_nbytes: Bytes that were written to the executor's local disk.
        memory_nbytes: Bytes kept for later epochs in memory, `disk_nbytes` in files, at the end of the last one.
        wait_s: Seconds that training waited for rows, of `seconds` in all.
        feeders_wait_s: Seconds that feeders waited for training.
    """

    rows: dict[str, int] = {}
    given: int = 0
    nbytes: int = 0
    local_nbytes: int = 0
    spilled_nbytes: int = 0
    memory_nbytes: int = 0
    disk_nbytes: int = 0
    wait_s: float = 0.0
    seconds: float = 0.0
    feeders_wait_s: float = 0.0

    def __add__(self, later: NodeInput) -> NodeInput:
        """Returns what was read in both; what is kept is what the later one keeps."""
        rows = Counter(self.rows)
        rows.update(later.rows)
        return NodeInput(
            rows=dict(rows),
            given=self.given + later.given,
            nbytes=self.nbytes + later.nbytes,
            local_nbytes=self.local_nbytes + later.local_nbytes,
            spilled_nbytes=self.spilled_nbytes + later.spilled_nbytes,
            memory_nbytes=later.memory_nbytes,
            disk_nbytes=later.disk_nbytes,
            wait_s=self.wait_s + later.wait_s,
            seconds=self.seconds + later.seconds,
            feeders_wait_s=self.feeders_wait_s + later.feeders_wait_s,
        )


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


class Sealed(Message):
    """A whole split is with a node."""

    node: NodeId
    span: Span
    rows: int


class WorkRequest(Message):
    """A node has run dry.

    Attributes:
        starved_s: Seconds since feeders last brought it something.
    """

    node: NodeId
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
