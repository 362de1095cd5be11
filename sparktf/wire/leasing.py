"""The messages about rows that workers lease under parameter servers, and about their training.

A worker leases intervals of the epoch sequence, and reports the trained ones in *receipts*. These travel with the
results of the coordinator's closures, and count once the coordinator has them: its reports to the driver are the truth
about a worker that is gone.
"""

from __future__ import annotations

from sparktf.message import Message
from sparktf.results.result import NodeInput
from sparktf.sequence import Interval, Piece
from sparktf.topology import NodeId
from sparktf.wire.sender import NodeMessage


class BlockLeaseRequest(NodeMessage):
    """A worker asks for rows of the training stream."""

    epoch: int
    rows: int  # The approximate number that it wants


class BlockLease(Message):
    """Rows that only this incarnation may train."""

    pieces: tuple[Piece, ...] = ()  # The pieces to read, in this order; empty if nothing can be leased at the moment
    # Every row of the epoch is trained, or the epoch is over: nothing will be leased any more. If it is False without
    # pieces, other nodes hold rows that may be returned: train the rows at hand, and ask again.
    ended: bool = False


class Receipt(Message):
    """The rows that one incarnation of a worker has trained in one execution of a closure."""

    node: NodeId
    incarnation: int
    number: int  # From 1 on, without gaps, for each incarnation
    epoch: int
    steps: int  # Updates
    intervals: tuple[Interval, ...]  # Finished intervals of the epoch sequence, rows set aside included
    rows: int  # Rows that went into updates; `rows_aside` are those that failed a check
    rows_aside: int = 0
    replayed: int = 0  # Those of the rows that an earlier, broken-off execution may have trained too
    loss: float = 0.0  # Sum of the rows' losses, each before its update
    metrics: tuple[float, ...] = ()  # What the rows add to the states of the metrics; only the coordinator needs it
    input: NodeInput = NodeInput()  # Input since the previous receipt


class Closed(Message):
    """The coordinator accepts nothing more from this incarnation: rows without a receipt count as not trained.

    The same applies to all earlier incarnations of the node.
    """

    node: NodeId
    incarnation: int


class Fetched(NodeMessage):
    """The coordinator's report of its workers' receipts, each once, in the order of their numbers."""

    receipts: tuple[Receipt, ...] = ()
    # Lost incarnations; all their receipts that will ever count are reported
    closed: tuple[Closed, ...] = ()
