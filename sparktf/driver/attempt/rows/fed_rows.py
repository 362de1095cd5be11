"""The rows that Spark feeds to an attempt, and when those that lost workers had are fed again.

Under parameter servers a lost worker does not end the attempt, and only the nodes know which of them has which rows:
one that has run dry takes some from another. Once no living worker has a row left, each untrained row was with a lost
one, or on its way there, and Spark can feed it again without any row being trained twice.

Theory (`Claims`): termination detection in two rounds, as Mattern's. Rows move between workers as messages do between
processes, and no moment can be looked at on all workers at once. Each worker that has nothing to do says so to the
driver, and counts in `moves` every part that came to it or left it. One round is not enough: A says that it has
nothing, then B gives A its last rows, then B says that it has nothing. But let every worker have said so once, and
then let every worker say so again with the same `moves`. Between its two claims no worker has given or taken a part.
These intervals all contain the moment at which the last first claim was made, so at that moment no worker had a row,
and no row was on its way between two of them: rows could come from Spark alone, and Spark has ended (`book.ended`).

A claim starts the rounds anew if it differs from the one before, or if its worker has rows in hand; so does the loss
of a worker. A claim also names the worker's last receipt: the driver waits until it knows that receipt, and until the
coordinator has closed every lost incarnation, before it takes untrained rows for lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.attempt.rows.leases import Lessee
from sparktf.driver.attempt.rows.ledger import Epoch, Ledger
from sparktf.errors import RefusedError, RowAccountingError
from sparktf.sequence import Interval, Stream
from sparktf.topology import NodeId
from sparktf.wire.control import AssignmentRequest
from sparktf.wire.data import DataAddress, Holding, Lease, LeaseRequest, Sealed, StagedShare, Work, WorkRequest


class Claim(NamedTuple):
    """A worker says that it has no row of an epoch; both as in `Holding`."""

    moves: int
    receipts: int


class Claims:
    """The claims of workers about one epoch since something last changed; the theory is at the top of this module."""

    def __init__(self) -> None:
        self._of: dict[Lessee, Claim] = {}
        self._again: set[Lessee] = set()

    def forget(self) -> None:
        """Begins anew: a worker is lost, or rows come again."""
        self._of.clear()
        self._again.clear()

    def note(self, lessee: Lessee, holding: Holding, living: int) -> None:
        """Notes the claim of one of `living` workers."""
        claim = Claim(holding.moves, holding.receipts)
        if holding.in_hand:
            self._of.pop(lessee, None)
            self._again.clear()
        elif self._of.get(lessee) != claim:
            self._of[lessee] = claim
            self._again.clear()
        elif len(self._of) == living:
            self._again.add(lessee)

    def settled(self, living: int) -> Mapping[Lessee, Claim] | None:
        """Returns all claims, if no living worker has a row left; None while one may."""
        return self._of if living and len(self._again) == len(self._of) == living else None


class FedRows:
    """The fed rows of one attempt; not thread-safe, the caller holds the lock that nodes report under.

    Attributes:
        ledger: Which node gets which split; None where Spark feeds nothing.
        wanted: Epochs that Spark is to feed; the caller that starts one takes it out.
    """

    def __init__(self, leases: LeaseBooks, ledger: Ledger | None = None) -> None:
        """Begins without splits; `leases` has the trained rows, where workers report them by receipts."""
        self.ledger = ledger
        self.wanted: list[Epoch] = []
        self._leases = leases
        self._claims = Claims()
        self._epoch = -1
        self._lost: list[Lessee] = []
        self._since = 0

    def ready(self, node: NodeId, data: DataAddress | None) -> None:
        """Notes the address at which a node takes rows."""
        if self.ledger is not None and data is not None:
            self.ledger.ready(node, data)

    @property
    def moved_s(self) -> float:
        """When Spark last gave rows, or had given all: until then, nodes without rows have waited for it."""
        return 0.0 if self.ledger is None else self.ledger.moved_s

    def share(self, message: AssignmentRequest, done: Sequence[Interval], *, keep: bool) -> StagedShare:
        """Returns a node's share of an epoch, and wants that fed if it is the first to ask.

        Args:
            done: Intervals of the epoch that are trained already.
            keep: Nodes keep the rows for later epochs.
        """
        stream, epoch, ledger = message.stream, message.epoch, self._open
        share, is_wanted = ledger.share(stream, epoch, done, keep=keep, sender=message, generation=message.generation)
        if is_wanted:
            self.wanted.append((stream, epoch))
        if stream is Stream.TRAIN and share.again:
            self._leases.kept(epoch, ledger.book(stream, epoch).rows)
        return share

    def lease(self, message: LeaseRequest) -> Lease:
        """Answers a feeder; for a split that is fed again, with its trained rows. Raises as `Ledger`."""
        lease, span = self._open.lease(message), message.span
        if not span.turn or lease.data is None:
            return lease
        return lease.model_copy(update={"done": tuple(self._leases.done(span.epoch, span.split))})

    def sealed(self, message: Sealed) -> None:
        """Notes a split that is wholly with its node. Raises as `Ledger`."""
        self._open.sealed(message)
        if message.span.stream is Stream.TRAIN:
            self._leases.sealed(message.span.epoch, message.span.split, message.rows)

    def work(self, message: WorkRequest, trained: Mapping[NodeId, int]) -> Work:
        """Answers a node that has run dry, and notes its claim; `trained` as of `Ledger.work`."""
        work, span = self._open.work(message, trained), message.span
        left = self._leases.left(span.epoch) if span.stream is Stream.TRAIN else None
        if left is None:
            return work
        self._note(self._open, message)
        # Where rows may be fed again, the epoch is over only when all are trained.
        return work.model_copy(update={"ended": work.ended and not left})

    def lose(self, node: NodeId, incarnation: int) -> None:
        """Notes that a worker is lost, while the attempt goes on."""
        lessee = Lessee(node, incarnation)
        if self.ledger is not None and lessee not in self._lost and self.ledger.lose(node):
            self._claims.forget()
            self._lost.append(lessee)
            self._since += 1

    def succeed(self, node: NodeId, host: str, jvm: str) -> None:
        """Notes the place of the trainer that follows a lost one."""
        if self.ledger is not None:
            self.ledger.succeed(node, host, jvm)

    def in_doubt(self, epoch: int) -> int:
        """Returns how many rows lost workers may have trained: they count once they are fed again."""
        return self._leases.untold(epoch, self._since) if self._since else 0

    def feed_again(self) -> None:
        """Wants the epoch to be fed again, if no worker has a row left and some are not trained.

        Raises:
            RowAccountingError: rows are missing, and no worker is lost.
        """
        epoch, ledger = self._epoch, self.ledger
        if ledger is None or not self._leases.left(epoch) or not self._is_settled(ledger, epoch):
            return
        missing = self._leases.missing(epoch)
        self._claims.forget()
        if not self._since:
            raise RowAccountingError(
                f"epoch {epoch}: {self._leases.left(epoch):,} rows of {len(missing)} partitions are held by no "
                "worker, although no worker was lost"
            )
        self._leases.fed_again(epoch, self._since)
        ledger.feed_again(Stream.TRAIN, epoch, missing)
        self.wanted.append((Stream.TRAIN, epoch))
        self._since = 0

    @property
    def _open(self) -> Ledger:
        if self.ledger is None:
            raise RefusedError("Spark feeds no rows")
        return self.ledger

    def _note(self, ledger: Ledger, message: WorkRequest) -> None:
        epoch, holding = message.span.epoch, message.holding
        if epoch > self._epoch:
            self._epoch = epoch
            self._claims.forget()
        if holding is None:
            return
        book = ledger.book(Stream.TRAIN, epoch)
        lives = book.begun.get(message.node) == message.incarnation
        if lives and book.ended and epoch == self._epoch:
            self._claims.note(Lessee(message.node, message.incarnation), holding, len(book.begun))

    def _is_settled(self, ledger: Ledger, epoch: int) -> bool:
        """Whether no living worker has a row, and all training has been reported."""
        book = ledger.book(Stream.TRAIN, epoch)
        said = self._claims.settled(len(book.begun))
        return (
            said is not None
            and book.ended
            and ledger.holders(Stream.TRAIN, epoch) <= book.begun.keys()  # kept rows wait from then on
            and all(self._leases.is_closed(one) for one in self._lost)
            and all(self._leases.knows_of(one, claim.receipts) for one, claim in said.items())
        )
