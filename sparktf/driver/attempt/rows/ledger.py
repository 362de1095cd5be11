"""Which node gets which split of a DataFrame, and which are sealed: the driver's books of fed rows.

A synchronous gang that goes on without a member has a book for each generation (`StreamBook.rest`). It begins with the
intervals that all members have trained by then, so that nothing needs to be known of what any of them held: each split
that is not trained to its end is awaited again, goes to one living node, and has its untrained rows trained there.
Leases, offers and rows on their way name their generation, and those of an earlier one are refused: by the driver, and
by each node from when it has begun the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparktf.errors import DataError, EmptySourceError, RefusedError, RowAccountingError
from sparktf.feed.channel.held import SPLIT_SPAN
from sparktf.knobs import KNOBS
from sparktf.sequence import Interval, Stream
from sparktf.topology import NodeId
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Sealed, Span, StagedShare, Work, WorkRequest
from sparktf.wire.sender import NodeMessage

Epoch = tuple[Stream, int]


@dataclass(slots=True)
class FeedAddress:
    """A node as feeders find it."""

    host: str
    jvm: str  # Identity of its executor
    data: DataAddress | None = None  # Where it takes rows; None until it is ready, and once it is lost
    follows: bool = False  # Its trainer follows a lost one; feeding does not wait for it


@dataclass(slots=True)
class StreamBook:
    """One stream in one epoch."""

    leases: dict[int, NodeId] = field(default_factory=dict)  # Split -> the node that gets it from any feeder
    rows: dict[int, int] = field(default_factory=dict)  # Split -> rows, of those that are sealed
    ended: bool = False  # All feeders have ended
    again: bool = False  # Nodes train on kept rows; feeders bring those of lost nodes
    gone: set[int] = field(default_factory=set)  # Splits that were sealed by nodes which are lost
    turn: int = 0  # How often rows of lost nodes were fed again
    todo: set[int] = field(default_factory=set)  # Splits that are still to come in a later turn
    # The incarnations of living nodes that have asked for the epoch
    begun: dict[NodeId, int] = field(default_factory=dict)
    generation: int = 1  # Of the members of a synchronous gang that it is fed to
    before: dict[int, int] = field(default_factory=dict)  # Split -> rows, as earlier generations had them
    trained: set[int] = field(default_factory=set)  # Splits that earlier generations have trained to their end
    is_rest: bool = False  # It has what they have left

    @classmethod
    def rest(cls, of: StreamBook, generation: int, done: Sequence[Interval]) -> StreamBook:
        """Returns the book of what earlier generations of a gang have left.

        Each split that is not trained to its end is awaited once more, wherever its rows are. One that a living node
        has had is offered to it again, which may have it still.

        Args:
            of: The book of the generation before.
            done: Intervals of the epoch that all members have trained, lost ones too.
        """
        before = of.before | of.rows
        rows_done = dict.fromkeys(before, 0)
        for start, stop in done:
            split = start // SPLIT_SPAN
            rows_done[split] = rows_done.get(split, 0) + stop - start
        trained = {split for split, rows in before.items() if rows_done[split] == rows}
        lost = of.gone & trained
        leases = {split: node for split, node in of.leases.items() if split in before and split not in of.gone - lost}
        rows = {split: before[split] for split in trained}
        return cls(leases, rows, gone=lost, generation=generation, before=before, trained=trained, is_rest=True)

    @property
    def known(self) -> dict[int, int]:
        """Split -> rows, of all that have come, to earlier generations too."""
        return self.before | self.rows

    def is_awaited(self, split: int) -> bool:
        """Whether a split is still to come to a node in this turn."""
        return split in self.todo if self.turn else split not in self.rows


class Ledger:
    """The leases of one attempt; not thread-safe, the caller holds the roster's lock.

    Attributes:
        moved_s: When a split last came in, or all of an epoch had.
    """

    def __init__(
        self,
        places: Mapping[NodeId, FeedAddress],
        clock: Callable[[], float],
        *,
        expected: Mapping[int, int],
        epoch: int,
        rebalance: bool,
        takers: Mapping[Stream, Collection[NodeId]] | None = None,
    ) -> None:
        """Begins without splits.

        Args:
            places: Of all nodes; those that take rows of no stream are left out.
            takers: The nodes that take the rows of a stream. Default: all take those of any.
            expected: Rows of the splits of the training stream in `epoch` that the checkpoint knew.
            rebalance: Whether a node that has run dry takes rows from others.
        """
        self.moved_s = clock()
        fed = set().union(*takers.values()) if takers else set(places)
        self._places = {node: place for node, place in places.items() if node in fed}
        self._clock = clock
        self._expected = (Stream.TRAIN, epoch), expected
        self._rebalance = rebalance
        self._takers = takers or {}
        self._books: dict[Epoch, StreamBook] = {}

    def ready(self, node: NodeId, data: DataAddress) -> None:
        """Notes the address at which a node takes rows, if it is to."""
        if node in self._places:
            self._places[node].data = data

    @property
    def is_ready(self) -> bool:
        """Whether every node takes rows, except successors of lost ones."""
        return all(place.data is not None or place.follows for place in self._places.values())

    def lose(self, node: NodeId) -> bool:
        """Notes the loss of a node's trainer with all rows fed to it; others get its pending splits.

        Returns:
            Whether it takes rows at all.
        """
        if node not in self._places:
            return False
        self._places[node] = replace(self._places[node], data=None, follows=True)
        for book in self._books.values():
            book.begun.pop(node, None)
            had = [split for split, holder in book.leases.items() if holder == node]
            for split in had:
                if not book.is_awaited(split):
                    book.gone.add(split)
                elif not book.ended:
                    del book.leases[split]
        return True

    def succeed(self, node: NodeId, host: str, jvm: str) -> None:
        """Notes the place of the trainer that follows a lost one."""
        if node in self._places:
            self._places[node] = replace(self._places[node], host=host, jvm=jvm)

    def feed_again(self, stream: Stream, epoch: int, splits: Collection[int]) -> None:
        """Opens an epoch that had ended, for splits of which lost nodes had rows.

        A node that kept one of them whole trains the rows from there; the others are computed again.
        """
        book = self.book(stream, epoch)
        book.turn, book.ended, book.todo = book.turn + 1, False, set(splits)
        for split in book.todo & book.gone:
            del book.leases[split]
        book.gone -= book.todo
        self.moved_s = self._clock()

    def knows(self, stream: Stream, epoch: int) -> bool:
        return (stream, epoch) in self._books

    def open(self, stream: Stream, epoch: int) -> None:
        self._books[stream, epoch] = StreamBook()

    def book(self, stream: Stream, epoch: int) -> StreamBook:
        """Returns the book of an epoch; an empty one if it has not begun."""
        return self._books.get((stream, epoch), StreamBook())

    def holders(self, stream: Stream, epoch: int) -> set[NodeId]:
        """Returns the living nodes that have splits of an epoch."""
        book = self.book(stream, epoch)
        return {node for split, node in book.leases.items() if split not in book.gone}

    def rows(self, stream: Stream, epoch: int) -> int:
        """Returns the rows of all sealed splits."""
        return sum(self.book(stream, epoch).rows.values())

    def lease(self, message: LeaseRequest) -> Lease:
        """Answers a feeder: its own executor's node, else one on its host, else any; of several the least loaded.

        Raises:
            RefusedError: the epoch is not fed any more.
        """
        span = message.span
        book = self._open_book(span)
        self.moved_s = self._clock()
        if not book.is_awaited(span.split) and (book.turn or book.again or span.split in book.gone | book.trained):
            return Lease(sealed=True)
        node = book.leases.get(span.split)
        if node is None:
            node = self._nearest(book, message, self._places_of(span.stream))
        if node is None:
            return Lease()
        book.leases[span.split] = node
        return Lease(data=self._places[node].data)

    def sealed(self, message: Sealed) -> None:
        """Notes a split that is wholly with its node.

        Raises:
            RefusedError: the epoch is over, or the split is another node's.
            DataError: its number of rows differs from that at the checkpoint, or on a lost node.
        """
        span = message.span
        book = self._open_book(span)
        if book.leases.get(span.split) != message.node:
            raise RefusedError(f"partition {span.split} is not leased to {message.node}")
        self._check_rows(book, span, message.rows)
        book.rows[span.split] = message.rows
        book.todo.discard(span.split)
        self.moved_s = self._clock()

    def _check_rows(self, book: StreamBook, span: Span, rows: int) -> None:
        epoch, expected = self._expected
        before = expected.get(span.split) if epoch == (span.stream, span.epoch) else None
        if before is not None and before != rows:
            raise DataError(
                f"partition {span.split} of the data has {rows:,} rows, but had {before:,} when the checkpoint was "
                "made: Spark did not compute the same rows again, so the run cannot be resumed inside the epoch; "
                "sort or checkpoint the DataFrame, or write it to a table"
            )
        here = book.known.get(span.split, rows)
        if here != rows and (book.turn or span.split in book.before):
            raise DataError(
                f"partition {span.split} of the data has {rows:,} rows, but had {here:,} before its worker was lost: "
                "Spark did not compute the same rows again, so they cannot be fed again inside the epoch; sort or "
                "checkpoint the DataFrame, or write it to a table"
            )
        if here != rows:
            raise RefusedError(f"partition {span.split} has already come with {here:,} rows, and now has {rows:,}")

    def end(self, stream: Stream, epoch: int, splits: int) -> None:
        """Notes that Spark has fed everything, in `splits` partitions.

        Raises:
            RowAccountingError: one of them never came.
            EmptySourceError: there is no row in them.
        """
        book = self.book(stream, epoch)
        book.ended = True
        self.moved_s = self._clock()
        missing = sorted(((set(range(splits)) | book.before.keys()) - book.rows.keys()) | book.todo)
        if missing or len(book.rows) > splits:
            raise RowAccountingError(
                f"epoch {epoch}: Spark fed {splits} partitions, but {len(book.rows)} reached the nodes"
                + (f"; partition {missing[0]} did not" if missing else "")
            )
        if not sum(book.rows.values()):
            raise EmptySourceError(f"{stream}: Spark computed no rows")

    def keep(self, stream: Stream, epoch: int) -> bool:
        """Opens an epoch in which nodes train on rows that they kept; returns False if they lack some.

        They need all that one epoch of this attempt brought; feeders bring the part of lost nodes.
        """
        earlier = [b for (s, e), b in self._books.items() if s is stream and e < epoch and b.ended]
        if not earlier:
            return False
        kept = earlier[-1]
        leases = {split: node for split, node in kept.leases.items() if split not in kept.gone}
        rows = {split: rows for split, rows in kept.rows.items() if split in leases}
        self._books[stream, epoch] = StreamBook(leases, rows, ended=not kept.gone, again=True)
        return True

    def share(
        self,
        stream: Stream,
        epoch: int,
        done: Sequence[Interval],
        *,
        keep: bool,
        sender: NodeMessage,
        generation: int = 1,
    ) -> tuple[StagedShare, bool]:
        """Returns a share that feeders bring, the same for every node, and whether the epoch is still to be fed.

        Args:
            done: Intervals of the epoch that are trained already.
            keep: Nodes keep the rows for later epochs.
            sender: The request.
            generation: Of the members that the epoch is fed to; the first request of a later one has its rest fed.
        """
        is_new = not self.knows(stream, epoch)
        if is_new and not (keep and self.keep(stream, epoch)):
            self.open(stream, epoch)
        book = self.book(stream, epoch)
        if is_new:
            book.generation = generation
        elif book.generation < generation:
            is_new, book = True, StreamBook.rest(book, generation, done)
            self._books[stream, epoch], self.moved_s = book, self._clock()
        book.begun[sender.node] = sender.incarnation
        share = StagedShare(
            done=tuple(done), keep=keep, again=book.again, generation=book.generation, rest=book.is_rest
        )
        return share, is_new and not book.ended

    def work(self, message: WorkRequest, trained: Mapping[NodeId, int]) -> Work:
        """Answers a node that has run dry; `trained` are the rows that each node has taken from this epoch's feed."""
        span = message.span
        book = self.book(span.stream, span.epoch)
        if span.generation != book.generation:
            raise RefusedError(
                f"epoch {span.epoch} of {span.stream} is fed to generation {book.generation} of the gang"
            )
        said = Work(ended=book.ended, fed=book.ended, rows=sum(book.rows.values()) if book.ended else None)
        if not self._rebalance or not (book.ended or message.starved_s >= KNOBS.own_feeders_s):
            return said
        held = dict.fromkeys(self._places_of(span.stream), 0)
        for split, rows in book.rows.items():
            if split in book.leases and split not in book.gone and split not in book.trained:
                held[book.leases[split]] += rows
        left = {node: rows - trained.get(node, 0) for node, rows in held.items() if node != message.node}
        peers = sorted((node for node, rows in left.items() if rows > 0), key=lambda node: -left[node])
        if not book.ended:
            # Rows that a node took from others count as trained there: it may have its own still, and no room for more,
            # while those that gave theirs away seem to have some for ever.
            peers += sorted((node for node in left if held[node] and left[node] <= 0), key=lambda node: -held[node])
        found = [self._places[node].data for node in peers]
        return said.model_copy(update={"peers": tuple(data for data in found if data is not None)})

    def _open_book(self, span: Span) -> StreamBook:
        book = self._books.get((span.stream, span.epoch))
        if book is None or book.ended or (book.turn, book.generation) != (span.turn, span.generation):
            raise RefusedError(f"epoch {span.epoch} of {span.stream} is not fed")
        return book

    def _places_of(self, stream: Stream) -> Mapping[NodeId, FeedAddress]:
        takers = self._takers.get(stream, self._places)
        return {node: place for node, place in self._places.items() if node in takers}

    def _nearest(self, book: StreamBook, message: LeaseRequest, places: Mapping[NodeId, FeedAddress]) -> NodeId | None:
        """Returns the node that gets a split; None while no node takes rows."""
        # A successor may take long before it trains: it must have begun to.
        places = {n: p for n, p in places.items() if p.data is not None and (n in book.begun or not p.follows)}
        if not places:
            return None
        near = [node for node, place in places.items() if (place.host, place.jvm) == (message.host, message.jvm)]
        near = near or [node for node, place in places.items() if place.host == message.host] or list(places)
        load = _load(book, near)
        return min(near, key=lambda node: load[node])


def _load(book: StreamBook, nodes: Sequence[NodeId]) -> dict[NodeId, tuple[int, int]]:
    """Returns the number of splits leased to each node, and their rows as far as they are known."""
    splits, rows = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for split, node in book.leases.items():
        if node in splits:
            splits[node] += 1
            rows[node] += book.rows.get(split, 0)
    return {node: (splits[node], rows[node]) for node in nodes}
