"""The messages about rows that workers lease as they go, under parameter servers, and about what became of them.

A worker leases intervals of the epoch's sequence; what it has trained of them, its *receipts* say. They travel with the
results of the coordinator's closures, and count once the coordinator has them: what it has told the driver is the truth
about a worker that is gone.
"""

from __future__ import annotations

from sparktf.message import Message
from sparktf.results.result import NodeInput
from sparktf.sequence import Interval, Piece
from sparktf.topology import NodeId
from sparktf.wire.sender import NodeMessage


class BlockLeaseRequest(NodeMessage):
    """A worker asks for rows of the training stream to read."""

    epoch: int
    rows: int  # About how many it wants


class BlockLease(Message):
    """Rows that are this incarnation's alone from now on."""

    pieces: tuple[Piece, ...] = ()  # What to read, in this order; empty where nothing can be leased now
    # Every row of the epoch is trained, or the epoch is over: nothing will be leased any more. Without pieces and not
    # ended, others hold rows that may come back: ask again, and train meanwhile what is at hand.
    ended: bool = False


class Receipt(Message):
    """What one incarnation of a worker has trained in one execution of a closure."""

    node: NodeId
    incarnation: int
    number: int  # From 1 on, without gaps, for each incarnation
    epoch: int
    steps: int  # Updates
    intervals: tuple[Interval, ...]  # Of the epoch's sequence: rows that are done, those that were set aside among them
    rows: int  # Rows that went into updates; `rows_aside` those that failed a check
    rows_aside: int = 0
    replayed: int = 0  # Rows of these that an execution before, which broke off, may have trained already
    loss: float = 0.0  # Sum over rows of the loss, before each update
    input: NodeInput = NodeInput()  # What was read since the receipt before


class Closed(Message):
    """The coordinator takes nothing more from this incarnation: what it has not told of counts as not trained.

    The same holds of all incarnations of the node before it.
    """

    node: NodeId
    incarnation: int


class Fetched(NodeMessage):
    """The coordinator tells what it has of its workers: each receipt once, in the order of numbers."""

    receipts: tuple[Receipt, ...] = ()
    # Incarnations that are lost; all of their receipts that will ever count have been told
    closed: tuple[Closed, ...] = ()
