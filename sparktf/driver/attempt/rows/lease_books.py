"""The leases and receipts of one attempt, over all epochs and workers.

Theory: leases with fencing numbers. A worker may be alive and unheard, so nobody can take its rows away by asking it.
Instead each trainer of a node has a number, its *incarnation*, and every claim to rows carries it:

- A lease gives rows to one incarnation. It has no time limit: it ends with receipts or with the incarnation.
- A receipt says which leased rows an incarnation has trained. It counts once the coordinator has reported it: the
  coordinator knows which rows the weights contain, and its reports decide about a worker that is gone.
- Once the driver counts an incarnation as lost, its successor has the next number. The lost one's leases still stand:
  receipts that it made may be on their way to the coordinator.
- The coordinator *closes* an incarnation when it will take no further receipt of it. This is the fence. From then on
  every message of the incarnation is refused, however late it wakes up, and its untrained rows can be leased again.

So at each moment every row of an epoch is in one place: free, leased to one incarnation, or trained. Receipts are
numbered without gaps, so one that is missing is an error instead of a lost row. The coordinator passes each on once; if
its message arrives twice, the second is answered without being served (`gang.handlers.Answers`).
It cannot be decided whether the last executions of a closed incarnation reached the weights before it was lost: such
rows are trained again, and at most `_UNTOLD` executions of each closed incarnation are reported as `replayed`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.rows.accounting import EpochReceipts
from sparktf.driver.attempt.rows.kept_blocks import KeptBlocks
from sparktf.driver.attempt.rows.leases import BlockLeases, Lessee, layout_of
from sparktf.driver.attempt.rows.shares import done_of
from sparktf.driver.attempt.rows.staged_leases import StagedLeases
from sparktf.driver.attempt.rows.unleased import BlockLayout
from sparktf.driver.plan.locality import NO_HOST
from sparktf.driver.plan.plan import Plan
from sparktf.errors import RefusedError, RowAccountingError
from sparktf.sequence import Cursor, Interval, Slices, Stream, remaining
from sparktf.topology import NodeId
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Fetched, Receipt

_UNTOLD = 2
"""Executions of a lost worker that may have trained rows unknown to the coordinator: the current one and the last."""


@dataclass
class EpochBook:
    """One epoch."""

    # None before the first request, and once the epoch is over; of fed rows, the remaining ones
    leases: BlockLeases | StagedLeases | None = None
    is_over: bool = False
    # Held while the leases are made, which may take long; never waited for under the books' own lock
    opening: threading.Lock = field(default_factory=threading.Lock)
    receipts: EpochReceipts = field(default_factory=EpochReceipts)
    by_kept: bool = False  # Whether the leases know workers, and not hosts, that have blocks


class LeaseBooks:
    """Thread-safe: callers wait outside of the lock that nodes report under."""

    def __init__(self, plan: Plan, cursor: Cursor, config: JobConfig, workers: Mapping[NodeId, str]) -> None:
        """Opens no epoch.

        Args:
            cursor: Where the attempt begins.
            workers: The host of each node that leases rows; none where rows are dealt.
        """
        self._plan = plan
        self._cursor = cursor
        self._batch_rows = config.train.batch_size
        self._untold_rows = _UNTOLD * config.steps_per_call * config.train.batch_size
        self._locality = config.data.locality
        self._workers = dict(workers)
        keeps = config.data.cache == "disk" and len(workers) > 1
        self._kept = KeptBlocks(plan.block_rows(Stream.TRAIN), workers) if keeps else None
        self._is_fed = Stream.TRAIN in plan.staged
        self._lock = threading.Lock()
        self._books: dict[int, EpochBook] = {}
        self._told: dict[Lessee, int] = {}
        self._closed: dict[NodeId, int] = {}
        self._trained: dict[NodeId, int] = {}
        self._layout: BlockLayout | None = None

    def move(self, node: NodeId, host: str) -> None:
        """Notes the host of a node's next trainer; from the next epoch on it gets the data there first."""
        with self._lock:
            self._workers[node] = host

    def lease(self, message: BlockLeaseRequest) -> BlockLease:
        """Leases rows to a worker. The first request of an epoch takes long.

        Raises:
            RefusedError: the incarnation that asks is closed, or leases nothing.
        """
        lessee = Lessee(message.node, message.incarnation)
        with self._lock:
            workers = self._workers.copy()
            book = self._book(message.epoch)
        if message.node not in workers or self._is_fed:
            raise RefusedError(f"{message.node} does not lease rows")
        host = self._plan.host_number(workers[message.node])  # for what is read beside it
        self._open(book, message.epoch, workers)
        with self._lock:
            if not isinstance(book.leases, BlockLeases):
                return BlockLease(ended=True)
            place = self._kept.place(lessee.node) if book.by_kept and self._kept is not None else host
            found = self._lease(book.leases, lessee, message, place, len(workers))
            ended = book.leases.is_done
        pieces = self._plan.pieces(Stream.TRAIN, found, host)
        return BlockLease.model_construct(pieces=pieces, ended=ended and not pieces)

    def sealed(self, epoch: int, split: int, rows: int) -> None:
        """Notes a split that a worker has from Spark, before a row of it is trained; a repeated report counts once."""
        with self._lock:
            leases = self._book(epoch).leases if self._workers else None
            if isinstance(leases, StagedLeases):
                leases.add(split, rows)

    def kept(self, epoch: int, splits: Mapping[int, int]) -> None:
        """Notes the rows of splits that workers have kept from an epoch before; a repeated report counts once."""
        for split, rows in splits.items():
            self.sealed(epoch, split, rows)

    def left(self, epoch: int) -> int | None:
        """Returns how many rows fed by Spark are not trained; None where rows are not leased."""
        with self._lock:
            if not self._workers:
                return None
            leases = self._book(epoch).leases
            return leases.left if isinstance(leases, StagedLeases) else 0

    def done(self, epoch: int, split: int) -> list[Interval]:
        """Returns the trained intervals of a split that Spark has fed."""
        with self._lock:
            leases = self._book(epoch).leases
            return leases.done(split) if isinstance(leases, StagedLeases) else []

    def missing(self, epoch: int) -> set[int]:
        """Returns the fed splits of which rows are not trained."""
        with self._lock:
            leases = self._book(epoch).leases
            return leases.missing() if isinstance(leases, StagedLeases) else set()

    def knows_of(self, lessee: Lessee, receipts: int) -> bool:
        """Whether this many receipts of an incarnation have been reported."""
        with self._lock:
            return self._told.get(lessee, 0) >= receipts

    def is_closed(self, lessee: Lessee) -> bool:
        """Whether no further receipt of an incarnation is taken."""
        with self._lock:
            return lessee.incarnation <= self._closed.get(lessee.node, -1)

    def fed_again(self, epoch: int, lost: int) -> None:
        """Notes that Spark feeds the untrained rows of an epoch again, after the loss of `lost` incarnations."""
        with self._lock:
            self._book(epoch).receipts.replayed += self._untold(epoch, lost)

    def untold(self, epoch: int, lost: int) -> int:
        """Returns how many rows of a fed epoch the `lost` incarnations may have trained without a receipt."""
        with self._lock:
            return self._untold(epoch, lost)

    def fetched(self, message: Fetched) -> None:
        """Notes trained rows, and closed incarnations.

        Raises:
            RowAccountingError: the incarnation had not leased these rows, or receipts are missing or came before.
        """
        with self._lock:
            for receipt in message.receipts:
                self._count(receipt)
            for closed in message.closed:
                self._close(closed.node, closed.incarnation)

    def receipts(self, epoch: int) -> EpochReceipts | None:
        """Returns the receipts of an epoch, to which more are added; None where rows are dealt."""
        with self._lock:
            return self._book(epoch).receipts if self._workers else None

    def fruitful(self, node: NodeId) -> int:
        """Returns the last incarnation of a worker known to have trained rows; -1 for none."""
        with self._lock:
            return max((lessee.incarnation for lessee in self._told if lessee.node == node), default=-1)

    def end(self, epoch: int) -> None:
        """Leases nothing more of an epoch, even if rows are left."""
        with self._lock:
            book = self._book(epoch)
            book.is_over, book.leases = True, None

    def _book(self, epoch: int) -> EpochBook:
        book = self._books.get(epoch)
        if book is None:
            book = self._books[epoch] = EpochBook(is_over=epoch < self._cursor.epoch)
            if self._is_fed and not book.is_over:
                book.leases = StagedLeases(done_of(self._cursor, Stream.TRAIN, epoch))
        return book

    def _untold(self, epoch: int, lost: int) -> int:
        leases = self._book(epoch).leases
        return min(leases.left, lost * self._untold_rows) if isinstance(leases, StagedLeases) else 0

    def _open(self, book: EpochBook, epoch: int, workers: Mapping[NodeId, str]) -> None:
        with book.opening:
            if book.leases is not None or book.is_over:
                return
            plan = self._plan
            todo = remaining(plan.rows(Stream.TRAIN), done_of(self._cursor, Stream.TRAIN, epoch))
            order, layout = plan.order(Stream.TRAIN, epoch), self._layout_for(workers)
            by_kept = not layout.hosts and self._kept is not None
            if by_kept and self._kept is not None:
                with self._lock:
                    layout = self._kept.layout()
            leases = BlockLeases(order, todo, layout, self._batch_rows)
            with self._lock:
                book.leases, book.by_kept = None if book.is_over else leases, by_kept

    def _layout_for(self, workers: Mapping[NodeId, str]) -> BlockLayout:
        """Returns the blocks by the workers' present hosts: a successor may be on another one."""
        numbers = {self._plan.host_number(host) for host in workers.values()} if self._locality else set()
        hosts = tuple(sorted(numbers - {NO_HOST}))
        layout = self._layout
        if layout is None or layout.hosts != hosts:
            layout = self._layout = layout_of(self._plan, hosts)
        return layout

    def _lease(
        self, leases: BlockLeases, lessee: Lessee, message: BlockLeaseRequest, host: int, workers: int
    ) -> Slices:
        if lessee.incarnation <= self._closed.get(lessee.node, -1):
            raise RefusedError(f"{lessee} is closed, and its leases now belong to other workers")
        # Rows that each node has trained so far tell its speed; before there are any, all are taken for alike.
        batch, trained = self._batch_rows, self._trained
        share = (trained.get(lessee.node, 0) + batch) / (sum(trained.values()) + workers * batch)
        found = leases.lease(lessee, host, message.rows, share)
        if self._kept is not None:
            self._kept.note(lessee, found.block)
        return found

    def _count(self, receipt: Receipt) -> None:
        lessee = Lessee(receipt.node, receipt.incarnation)
        told = self._told.get(lessee, 0)
        if receipt.number != told + 1:
            raise RowAccountingError(f"receipt {receipt.number} of {lessee} came where receipt {told + 1} was due")
        book = self._book(receipt.epoch)
        if book.leases is None:
            raise RowAccountingError(f"{lessee} has trained rows of epoch {receipt.epoch}, which is not under way")
        rows = book.leases.fetched(lessee, receipt.intervals)
        if rows != receipt.rows + receipt.rows_aside:
            raise RowAccountingError(
                f"receipt {receipt.number} of {lessee} covers {rows} rows, but {receipt.rows} were trained and "
                f"{receipt.rows_aside} set aside"
            )
        self._told[lessee] = receipt.number
        self._trained[receipt.node] = self._trained.get(receipt.node, 0) + receipt.rows
        book.receipts.add(receipt, rows)

    def _close(self, node: NodeId, incarnation: int) -> None:
        first = self._closed.get(node, -1) + 1
        self._closed[node] = max(self._closed.get(node, -1), incarnation)
        for lessee in (Lessee(node, i) for i in range(first, incarnation + 1)):
            for book in self._books.values():
                if isinstance(book.leases, BlockLeases):
                    # Rows that it had leased ahead are not trained.
                    book.receipts.replayed += min(book.leases.close(lessee), self._untold_rows)
