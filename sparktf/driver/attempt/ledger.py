"""Which node gets which split of a DataFrame, and which are sealed: the driver's books of what Spark feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparktf.errors import DataError, EmptySourceError, RefusedError, RowAccountingError
from sparktf.knobs import KNOBS
from sparktf.sequence import Interval, Stream
from sparktf.topology import NodeId
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Sealed, StagedShare, Work, WorkRequest

Epoch = tuple[Stream, int]


@dataclass(slots=True)
class FeedPlace:
    """A node as feeders find it.

    Attributes:
        jvm: Identity of its executor.
        data: Where it takes rows; None until it is ready.
    """

    host: str
    jvm: str
    data: DataAddress | None = None


@dataclass(slots=True)
class Book:
    """One stream in one epoch.

    Attributes:
        leases: Split -> the node that gets it, whoever feeds it.
        rows: Split -> rows, of those that are sealed.
        ended: No feeder is at work any more.
        again: Nodes train on what they kept; nobody feeds.
    """

    leases: dict[int, NodeId] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    ended: bool = False
    again: bool = False


class Ledger:
    """The leases of one attempt; not thread-safe, the caller holds the roster's lock.

    Attributes:
        moved_s: When something last came in, or all of an epoch had.
    """

    def __init__(
        self,
        places: Mapping[NodeId, FeedPlace],
        clock: Callable[[], float],
        *,
        expected: Mapping[int, int],
        epoch: int,
        rebalance: bool,
    ) -> None:
        """Knows of no split yet.

        Args:
            expected: Rows of the splits of the training stream in `epoch` that the checkpoint knew.
            rebalance: Whether a node that has run dry takes rows from others.
        """
        self.moved_s = clock()
        self._places = places
        self._clock = clock
        self._expected = (Stream.TRAIN, epoch), expected
        self._rebalance = rebalance
        self._books: dict[Epoch, Book] = {}

    def ready(self, node: NodeId, data: DataAddress) -> None:
        """Notes where a node takes rows."""
        self._places[node].data = data

    @property
    def is_ready(self) -> bool:
        """Whether every node takes rows."""
        return all(place.data is not None for place in self._places.values())

    def knows(self, stream: Stream, epoch: int) -> bool:
        """Whether an epoch has begun."""
        return (stream, epoch) in self._books

    def open(self, stream: Stream, epoch: int) -> None:
        """Begins an epoch that Spark feeds."""
        self._books[stream, epoch] = Book()

    def book(self, stream: Stream, epoch: int) -> Book:
        """Returns the book of an epoch; an empty one if it has not begun."""
        return self._books.get((stream, epoch), Book())

    def rows(self, stream: Stream, epoch: int) -> int:
        """Returns the rows of all sealed splits."""
        return sum(self.book(stream, epoch).rows.values())

    def lease(self, message: LeaseRequest) -> Lease:
        """Answers a feeder: its own executor's node, else one on its host, else any; of several the one that has least.

        Raises:
            RefusedError: the epoch is not fed any more.
        """
        span = message.span
        book = self._open_book(span.stream, span.epoch)
        self.moved_s = self._clock()
        node = book.leases.get(span.split)
        if node is None:
            node = book.leases[span.split] = self._nearest(book, message)
        data = self._places[node].data
        if data is None:
            raise RefusedError(f"{node} takes no rows yet")
        return Lease(data=data)

    def sealed(self, message: Sealed) -> None:
        """Notes a split that is wholly with its node.

        Raises:
            RefusedError: the epoch is over, or the split is another node's.
            DataError: it has not the rows that it had when the checkpoint was made.
        """
        span = message.span
        book = self._open_book(span.stream, span.epoch)
        if book.leases.get(span.split) != message.node:
            raise RefusedError(f"partition {span.split} is not leased to {message.node}")
        epoch, expected = self._expected
        before = expected.get(span.split) if epoch == (span.stream, span.epoch) else None
        if before is not None and before != message.rows:
            raise DataError(
                f"partition {span.split} of the data has {message.rows:,} rows; it had {before:,} when the "
                "checkpoint was made: Spark does not compute the same rows again, so a run cannot be resumed inside an "
                "epoch. Sort or checkpoint the DataFrame, or write it to a table"
            )
        book.rows[span.split] = message.rows
        self.moved_s = self._clock()

    def end(self, stream: Stream, epoch: int, splits: int) -> None:
        """Notes that Spark has fed everything.

        Args:
            splits: How many partitions there were.

        Raises:
            RowAccountingError: one of them never came.
            EmptySourceError: there is no row in them.
        """
        book = self.book(stream, epoch)
        book.ended = True
        self.moved_s = self._clock()
        missing = sorted(set(range(splits)) - book.rows.keys())
        if missing or len(book.rows) > splits:
            raise RowAccountingError(
                f"epoch {epoch}: Spark fed {splits} partitions, and {len(book.rows)} came to the nodes"
                + (f"; partition {missing[0]} did not" if missing else "")
            )
        if not sum(book.rows.values()):
            raise EmptySourceError(f"{stream}: Spark has computed no row")

    def keep(self, stream: Stream, epoch: int) -> bool:
        """Opens an epoch in which nodes train on what they kept; returns False if they have not got everything.

        Everything is what one epoch of this attempt brought.
        """
        earlier = [b for (s, e), b in self._books.items() if s is stream and e < epoch and b.ended]
        if not earlier:
            return False
        kept = earlier[-1]
        self._books[stream, epoch] = Book(dict(kept.leases), dict(kept.rows), ended=True, again=True)
        return True

    def share(self, stream: Stream, epoch: int, done: Sequence[Interval], *, keep: bool) -> tuple[StagedShare, bool]:
        """Returns a share that feeders bring, the same for every node, and whether somebody is to have the epoch fed.

        Args:
            done: What of the epoch is trained already.
            keep: Nodes keep what comes for later epochs.
        """
        is_new = not self.knows(stream, epoch) and not (keep and self.keep(stream, epoch))
        if is_new:
            self.open(stream, epoch)
        return StagedShare(done=tuple(done), keep=keep, again=self.book(stream, epoch).again), is_new

    def work(self, message: WorkRequest, trained: Mapping[NodeId, int]) -> Work:
        """Answers a node that has run dry.

        Args:
            trained: Rows of this epoch that each node has taken from its feed.
        """
        span = message.span
        book = self.book(span.stream, span.epoch)
        if not self._rebalance or not (book.ended or message.starved_s >= KNOBS.own_feeders_s):
            return Work(ended=book.ended)
        held = dict.fromkeys(self._places, 0)
        for split, rows in book.rows.items():
            held[book.leases[split]] += rows
        left = {node: rows - trained.get(node, 0) for node, rows in held.items() if node != message.node}
        peers = sorted((node for node, rows in left.items() if rows > 0), key=lambda node: -left[node])
        if not book.ended:
            # Rows that a node took from others count as trained there: it may have its own still, and no room for more,
            # while those that gave theirs away seem to have some for ever.
            peers += sorted((node for node in left if held[node] and left[node] <= 0), key=lambda node: -held[node])
        found = [self._places[node].data for node in peers]
        return Work(ended=book.ended, peers=tuple(data for data in found if data is not None))

    def _open_book(self, stream: Stream, epoch: int) -> Book:
        book = self._books.get((stream, epoch))
        if book is None or book.ended:
            raise RefusedError(f"epoch {epoch} of {stream} is not fed")
        return book

    def _nearest(self, book: Book, message: LeaseRequest) -> NodeId:
        places = self._places
        near = [node for node, place in places.items() if (place.host, place.jvm) == (message.host, message.jvm)]
        near = near or [node for node, place in places.items() if place.host == message.host] or list(places)
        load = _load(book, near)
        return min(near, key=lambda node: load[node])


def _load(book: Book, nodes: Sequence[NodeId]) -> dict[NodeId, tuple[int, int]]:
    """Returns for each node how many splits were leased to it, and their rows as far as they are known."""
    splits, rows = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for split, node in book.leases.items():
        if node in splits:
            splits[node] += 1
            rows[node] += book.rows.get(split, 0)
    return {node: (splits[node], rows[node]) for node in nodes}
