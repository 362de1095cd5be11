"""Workers lease the rows of an epoch as they go: every row is trained once, by content, whatever happens to them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from lakes import lake_config, placed

from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.attempt.rows.leases import BlockLeases, Lessee
from sparktf.driver.attempt.rows.unleased import BlockLayout
from sparktf.driver.plan.locality import NO_HOST, Groups
from sparktf.driver.plan.plan import Plan
from sparktf.errors import RefusedError, RowAccountingError
from sparktf.results.result import NodeInput
from sparktf.sequence import Cursor, EpochOrder, Interval, Piece, Slices, Stream, remaining
from sparktf.topology import NodeId, Role
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Closed, Fetched, Receipt
from sparktf.wire.sender import Sender

CHIEF = NodeId(role=Role.CHIEF, index=0)
WORKERS = [NodeId(role=Role.WORKER, index=i) for i in range(3)]
ONE, TWO, THREE = (Lessee(node, 0) for node in WORKERS)
TRAIN = Stream.TRAIN


def leases(
    block_rows: Sequence[int],
    local: Sequence[Sequence[int]] | None = None,
    *,
    hosts: int = 2,
    todo: Sequence[Interval] | None = None,
    seed: int | None = None,
    batch_rows: int = 4,
) -> BlockLeases:
    """Returns the books of an epoch whose blocks lie on hosts as told; by default nowhere."""
    rows = np.array(block_rows, np.int64)
    beside = local or [[]] * len(rows)
    starts = np.concatenate([[0], np.cumsum([len(each) for each in beside])])
    groups = Groups(starts, np.array([host for each in beside for host in each], np.int64))
    whole = [(0, int(rows.sum()))] if todo is None else todo
    order, layout = EpochOrder(rows, epoch=0, seed=seed), BlockLayout(rows, tuple(range(hosts)), groups)
    return BlockLeases(order, whole, layout, batch_rows)


def intervals(slices: Slices) -> list[Interval]:
    return [(first, first + rows) for first, rows in zip(slices.first_row.tolist(), slices.rows.tolist(), strict=True)]


def blocks(slices: Slices) -> list[int]:
    return [int(block) for block in slices.block]


def test_whole_blocks_are_leased_while_there_are_many_and_about_as_many_rows_as_are_wanted() -> None:
    books = leases([100] * 40)
    assert intervals(books.lease(ONE, NO_HOST, 150, share=0.5)) == [(0, 100), (100, 200)]
    assert intervals(books.lease(TWO, NO_HOST, 1, share=0.5)) == [(200, 300)]


def test_a_worker_gets_what_lies_beside_it_first_then_what_lies_nowhere_then_of_where_most_is_left() -> None:
    local = [[0], [1], [], [1], [1, 2], [2], [0]]
    books = leases([10] * 7, local, hosts=3, batch_rows=1)
    assert blocks(books.lease(ONE, 0, 20)) == [0, 6]
    assert blocks(books.lease(ONE, 0, 10)) == [2]
    assert blocks(books.lease(ONE, 0, 10)) == [4], "from the back, which its own reader comes to last"
    assert blocks(books.lease(TWO, 1, 100)) == [1, 3, 5]


def test_towards_the_end_blocks_are_cut_so_that_no_worker_has_much_left_when_the_others_are_through() -> None:
    books = leases([1600])
    sizes = []
    while rows := int(books.lease(ONE, NO_HOST, 10_000, share=0.5).rows.sum()):
        sizes.append(rows)
    assert sum(sizes) == 1600
    assert sizes[:3] == [400, 300, 228]
    assert all(rows % 4 == 0 for rows in sizes)
    assert min(sizes[:-1]) == 100, "no part of a block is too small to be worth reading it for"


def test_a_slow_worker_gets_less_at_the_end() -> None:
    slow, fast = leases([1600]), leases([1600])
    assert slow.lease(ONE, NO_HOST, 10_000, share=0.2).rows.sum() == 160
    assert fast.lease(ONE, NO_HOST, 10_000, share=0.8).rows.sum() == 640


def test_one_worker_alone_gets_whole_blocks_to_the_end() -> None:
    books = leases([100, 50, 3])
    assert intervals(books.lease(ONE, NO_HOST, 10_000)) == [(0, 100), (100, 150), (150, 153)]


def test_fewer_blocks_than_workers_are_shared_by_all() -> None:
    books = leases([60])
    assert all(books.lease(who, NO_HOST, 60, share=1 / 3).rows.sum() for who in (ONE, TWO, THREE))


def test_where_nothing_is_left_that_others_have_not_leased_there_is_nothing_until_one_is_closed() -> None:
    books = leases([100])
    first = intervals(books.lease(ONE, NO_HOST, 100))
    assert first == [(0, 100)]
    assert intervals(books.lease(TWO, NO_HOST, 100)) == []
    assert books.fetched(ONE, [(0, 10), (40, 60)]) == 30
    assert not books.is_done
    books.close(ONE)
    assert intervals(books.lease(TWO, NO_HOST, 100)) == [(10, 40), (60, 100)]
    assert books.fetched(TWO, [(10, 40), (60, 100)]) == 70
    assert books.is_done


def test_what_a_lost_worker_leaves_goes_to_those_beside_it_first() -> None:
    books = leases([10, 10, 10, 10], [[0], [1], [0], [1]], batch_rows=1)
    books.lease(ONE, 0, 10)
    books.lease(TWO, 1, 10)
    books.close(ONE)
    books.close(TWO)
    assert blocks(books.lease(THREE, 1, 20)) == [1, 3]
    assert blocks(books.lease(THREE, 0, 20)) == [0, 2]


@pytest.mark.parametrize(
    "told", [(90, 110), (0, 101), (50, 50), (-1, 5)], ids=["beyond", "more", "nothing", "before the first"]
)
def test_rows_that_an_incarnation_has_not_leased_cannot_have_been_trained_by_it(told: Interval) -> None:
    books = leases([100, 100])
    books.lease(ONE, NO_HOST, 100, share=1.0)
    books.lease(TWO, NO_HOST, 100, share=1.0)
    with pytest.raises(RowAccountingError, match=rf"worker 0 has trained rows \[{told[0]}, {told[1]}\)"):
        books.fetched(ONE, [told])
    assert books.fetched(ONE, [(0, 100)]) == 100
    with pytest.raises(RowAccountingError):
        books.fetched(ONE, [(0, 1)])


def test_only_what_a_checkpoint_left_is_leased() -> None:
    books = leases([10, 10, 10], todo=[(5, 8), (25, 30)], seed=3)
    assert intervals(books.lease(ONE, NO_HOST, 100)) == [(5, 8), (25, 30)]
    books.fetched(ONE, [(5, 8), (25, 30)])
    assert books.is_done


def test_an_epoch_without_rows_is_done() -> None:
    assert leases([10], todo=[]).is_done


# ---- random walks of workers that lease, train, die and come back ----


Row = tuple[int, int]
"""A row by content: its block, and its place there."""


def small_plan(seed: int, hosts: int, groups: int) -> Plan:
    """Returns a plan of row groups of a few rows, two to a block."""
    plan = placed(hosts, 1, groups, seed=seed, block_rows=40_000)
    table = plan.tables[TRAIN]
    rows = np.random.default_rng(seed).integers(0, 12, groups)
    return replace(plan, tables={TRAIN: replace(table, group_rows=rows, selected=rows)})


def refused_or(books: LeaseBooks, request: BlockLeaseRequest) -> BlockLease | None:
    """Returns the answer to a request, None if it was refused."""
    try:
        return books.lease(request)
    except RefusedError:
        return None


@dataclass(eq=False)
class Worker:
    """One incarnation as it knows itself.

    Attributes:
        left: What it has leased and not trained.
        receipts: All that it has made, with the rows that each is of; so many of them are `fetched`.
    """

    lessee: Lessee
    left: list[Piece] = field(default_factory=list)
    receipts: list[tuple[Receipt, list[Row]]] = field(default_factory=list)
    fetched: int = 0

    @property
    def sender(self) -> Sender:
        return Sender(attempt=1, node=self.lessee.node, incarnation=self.lessee.incarnation)

    def train(self, rng: random.Random, epoch: int) -> None:
        """Trains a part of what it has, and makes a receipt."""
        piece = self.left.pop(rng.randrange(len(self.left)))
        rows = rng.randint(1, piece.rows)
        if rows < piece.rows:
            rest = {"start": piece.start + rows, "first_row": piece.first_row + rows}
            self.left.append(piece.model_copy(update=rest))
        aside = rng.randint(0, rows) if rng.random() < 0.1 else 0
        receipt = Receipt(
            node=self.lessee.node,
            incarnation=self.lessee.incarnation,
            number=len(self.receipts) + 1,
            epoch=epoch,
            steps=1,
            intervals=((piece.first_row, piece.first_row + rows),),
            rows=rows - aside,
            rows_aside=aside,
        )
        self.receipts.append((receipt, [(piece.block, row) for row in range(piece.start, piece.start + rows)]))


class Walk:
    """Workers over a plan, some lost now and then, and a coordinator that tells of them, late.

    Attributes:
        counted: How often each row, by content, has counted as trained in this epoch.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.plan = small_plan(seed, hosts=rng.randint(1, 4), groups=rng.randint(1, 30))
        rows = self.plan.rows(TRAIN)
        first, second = sorted(rng.randint(0, rows) for _ in range(2))
        self.cursor = Cursor(epoch=1, done=((first, second),) if first < second else ())
        hosts = {node: f"n{rng.randrange(5)}" for node in WORKERS}
        config = lake_config(locality=rng.random() < 0.8, cache=rng.choice(("auto", "disk")))
        config = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": rng.randint(1, 9)})})
        self.books = LeaseBooks(self.plan, self.cursor, config, hosts)
        self.workers = [Worker(Lessee(node, 0)) for node in WORKERS]
        self.lost: list[Worker] = []
        self.counted: Counter[Row] = Counter()
        self.epoch = 0

    def go_through(self, epoch: int) -> None:
        """Goes on until every worker has heard that the epoch has ended."""
        self.epoch, self.counted, ended = epoch, Counter(), set[Lessee]()
        for _ in range(20_000):
            worker, action = self.rng.choice(self.workers), self.rng.random()
            if action < 0.3:
                ended |= {worker.lessee} if self.lease(worker).ended else set()
            elif action < 0.7 and worker.left:
                worker.train(self.rng, epoch)
            elif action < 0.9:
                self.fetch(worker)
            elif action < 0.93 and len(self.lost) < 20:
                self.lose(worker)
            elif self.lost:
                self.close(self.rng.choice(self.lost))
            if {each.lessee for each in self.workers} <= ended:
                return
        raise AssertionError("the epoch never ends")

    def lease(self, worker: Worker) -> BlockLease:
        """A worker asks."""
        rows = self.rng.randint(1, 40)
        request = BlockLeaseRequest(**worker.sender, epoch=self.epoch, rows=rows)
        answer = self.books.lease(request)
        worker.left += answer.pieces
        return answer

    def fetch(self, worker: Worker, *closed: Closed) -> None:
        """The coordinator gets some of a worker's receipts, and tells the driver."""
        until = self.rng.randint(worker.fetched, len(worker.receipts))
        new = worker.receipts[worker.fetched : until]
        self.counted.update(row for _, rows in new for row in rows)
        worker.fetched = until
        receipts = tuple(receipt for receipt, _ in new)
        self.books.fetched(Fetched(attempt=1, node=CHIEF, receipts=receipts, closed=closed))

    def lose(self, worker: Worker) -> None:
        """A worker dies; another one takes its place at once, perhaps elsewhere, while its leases are still its own."""
        node, incarnation = worker.lessee
        self.lost.append(worker)
        self.workers[self.workers.index(worker)] = Worker(Lessee(node, incarnation + 1))
        self.books.move(node, f"n{self.rng.randrange(5)}")

    def close(self, worker: Worker) -> None:
        """The coordinator has all that it will ever fetch of a worker that is lost, and of those before it."""
        node, incarnation = worker.lessee
        self.lost = [each for each in self.lost if each.lessee.node != node or each.lessee.incarnation > incarnation]
        self.fetch(worker, Closed(node=node, incarnation=incarnation))
        late = BlockLeaseRequest(**worker.sender, epoch=self.epoch, rows=9)
        answer = refused_or(self.books, late)
        assert answer is None or answer.ended


@pytest.mark.parametrize("seed", range(30))
def test_every_row_counts_once_in_every_epoch_whoever_dies(seed: int) -> None:
    walk = Walk(seed)
    for epoch in (1, 2, 3):
        walk.go_through(epoch)
        rows = walk.plan.rows(TRAIN)
        done = walk.cursor.done if epoch == 1 else ()
        todo = walk.plan.order(TRAIN, epoch).slices(remaining(rows, done))
        expected = [(one.block, row) for one in todo.tolist() for row in range(one.start, one.stop)]
        assert walk.counted == Counter(expected)
        receipts = walk.books.receipts(epoch)
        assert receipts is not None
        assert receipts.counts.fed == len(expected) == receipts.counts.trained + receipts.counts.aside


def book_of(plan: Plan) -> LeaseBooks:
    hosts = dict(zip(WORKERS, ["n0", "n1", "n2"], strict=True))
    return LeaseBooks(plan, Cursor(), lake_config(), hosts)


def asked(books: LeaseBooks, lessee: Lessee, rows: int = 1_000_000) -> BlockLease:
    request = BlockLeaseRequest(attempt=1, node=lessee.node, incarnation=lessee.incarnation, epoch=0, rows=rows)
    return books.lease(request)


def receipt(lessee: Lessee, number: int, *intervals: Interval, rows: int | None = None, **more: Any) -> Receipt:
    trained = sum(stop - start for start, stop in intervals) if rows is None else rows
    return Receipt(
        node=lessee.node,
        incarnation=lessee.incarnation,
        number=number,
        epoch=0,
        steps=1,
        intervals=intervals,
        rows=trained,
        **more,
    )


def fetched(*receipts: Receipt, closed: tuple[Closed, ...] = ()) -> Fetched:
    return Fetched(attempt=1, node=CHIEF, receipts=receipts, closed=closed)


def test_what_workers_have_read_and_what_was_replayed_adds_up_from_their_receipts() -> None:
    books = book_of(placed(3, 1, 40))
    (mine, *_), (theirs, *_) = asked(books, ONE).pieces, asked(books, TWO).pieces
    first = mine.first_row
    read = NodeInput(rows={"direct": 5}, nbytes=50, wait_s=0.5)
    books.fetched(fetched(receipt(ONE, 1, (first, first + 5), input=read)))
    books.fetched(fetched(receipt(ONE, 2, (first + 5, first + 9), input=read, replayed=4)))
    other = theirs.first_row
    books.fetched(fetched(receipt(TWO, 1, (other, other + 7), rows=5, rows_aside=2, replayed=1, input=read)))

    told = books.receipts(0)
    assert told is not None
    assert (told.counts, told.replayed) == ((16, 14, 2), 5)
    assert told.inputs == {ONE.node: NodeInput(rows={"direct": 10}, nbytes=100, wait_s=1.0), TWO.node: read}


@pytest.mark.parametrize(("leased", "replayed"), [(1, 100), (1_000_000, 2 * 256 * 32)])
def test_rows_that_a_lost_worker_may_have_trained_count_as_replayed_and_those_it_had_for_later_do_not(
    leased: int, replayed: int
) -> None:
    books = book_of(placed(1, 1, 40))
    pieces = asked(books, ONE, rows=leased).pieces
    held = sum(piece.rows for piece in pieces)
    first, last = pieces[0].first_row, pieces[-1]
    if leased == 1:  # all but 100 rows are trained, and told of
        ends = [(piece.first_row, piece.first_row + piece.rows) for piece in pieces]
        ends[-1] = (last.first_row, last.first_row + last.rows - 100)
        books.fetched(fetched(receipt(ONE, 1, *ends)))
    else:
        assert held > replayed
        books.fetched(fetched(receipt(ONE, 1, (first, first + 5))))
    for _ in range(2):
        books.fetched(fetched(closed=(Closed(node=ONE.node, incarnation=0),)))
    told = books.receipts(0)
    assert told is not None
    assert told.replayed == replayed


def test_receipts_that_cannot_be_are_told_of_by_name() -> None:
    books = book_of(placed(3, 1, 40))
    first = asked(books, ONE).pieces[0].first_row
    books.fetched(fetched(receipt(ONE, 1, (first, first + 5))))
    wrong = [
        (receipt(ONE, 3, (first + 5, first + 6)), "receipt 3 of worker 0 came where receipt 2 was due"),
        (receipt(ONE, 1, (first, first + 5)), "receipt 1 of worker 0 came where receipt 2 was due"),
        (receipt(ONE, 2, (first, first + 6)), "worker 0 has trained rows"),
        (receipt(TWO, 1, (first + 5, first + 6)), "worker 1 has trained rows"),
        (receipt(ONE, 2, (first + 5, first + 9), rows=3), "covers 4 rows, but 3 were trained and 0 set aside"),
        (receipt(ONE, 2, (0, 1)).model_copy(update={"epoch": 7}), "of epoch 7, which is not under way"),
    ]
    for told, why in wrong:
        with pytest.raises(RowAccountingError, match=why):
            books.fetched(fetched(told))
    books.fetched(fetched(closed=(Closed(node=ONE.node, incarnation=0),)))
    with pytest.raises(RowAccountingError, match="worker 0 has trained rows"):
        books.fetched(fetched(receipt(ONE, 2, (first + 5, first + 6))))


def test_an_incarnation_that_never_spoke_is_closed_with_those_after_it() -> None:
    plan = placed(1, 1, 4)
    books = book_of(plan)
    lost, last = (Lessee(ONE.node, i) for i in (0, 1))
    while asked(books, lost).pieces:
        pass
    assert not asked(books, TWO).pieces
    books.fetched(fetched(closed=(Closed(node=last.node, incarnation=last.incarnation),)))
    assert sum(piece.rows for piece in asked(books, TWO).pieces) >= plan.rows(TRAIN) / 6
    with pytest.raises(RefusedError, match="worker 0 is closed"):
        asked(books, lost)


def test_an_epoch_that_is_over_is_leased_no_more_whatever_is_left() -> None:
    books = book_of(placed(3, 1, 40))
    assert asked(books, ONE, rows=1).pieces
    books.end(0)
    assert asked(books, ONE) == asked(books, TWO) == BlockLease(ended=True)


def test_what_lies_on_a_successors_host_is_its_own_from_the_next_epoch_on() -> None:
    plan = placed(4, 1, 40, block_rows=20_000)
    books = LeaseBooks(plan, Cursor(), lake_config(), {ONE.node: "n0", TWO.node: "n1"})
    asked(books, ONE, rows=1)
    books.move(ONE.node, "n3")
    request = BlockLeaseRequest(attempt=1, node=ONE.node, incarnation=1, epoch=1, rows=100_000)
    splits = [split for piece in books.lease(request).pieces for split in piece.splits]
    assert len(splits) == 5
    assert all(split.local_nbytes == split.nbytes for split in splits)


def kept(cache: str, *, speeds: Sequence[int] = (1, 1, 1), lost: bool = False) -> float:
    """Has three workers train two epochs of 90 blocks that lie beside none of them.

    Args:
        speeds: How often each of them asks in the second epoch.
        lost: Whether the last one is another process by then.

    Returns:
        The part of the second epoch's blocks that its process has had in the first.
    """
    plan = placed(1, 1, 90, block_rows=20_000)
    books = LeaseBooks(plan, Cursor(), lake_config(cache=cache), dict.fromkeys(WORKERS, "elsewhere"))
    rng, had, found = random.Random(1), set[tuple[Lessee, int]](), list[bool]()
    numbers = Counter[Lessee]()
    for epoch, often in enumerate(((1, 1, 1), speeds)):
        lessees, now = (ONE, TWO, THREE._replace(incarnation=int(lost and epoch == 1))), set[tuple[Lessee, int]]()
        while True:
            (one,) = rng.choices(lessees, often)
            answer = books.lease(
                BlockLeaseRequest(attempt=1, node=one.node, incarnation=one.incarnation, epoch=epoch, rows=1)
            )
            for piece in answer.pieces:
                numbers[one] += 1
                rows = ((piece.first_row, piece.first_row + piece.rows),)
                made = receipt(one, numbers[one], *rows, rows=piece.rows).model_copy(update={"epoch": epoch})
                books.fetched(fetched(made))
                now.add((one, piece.block))
            if answer.ended:
                break
        found += [each in had for each in now] if epoch else []
        had |= now
    return sum(found) / len(found)


def test_a_worker_gets_the_blocks_again_that_it_keeps_on_its_disk() -> None:
    assert kept("auto") < 0.5, "by chance, a third"
    assert kept("disk") > 0.85
    assert 0.6 < kept("disk", speeds=(3, 3, 1)) < 0.95, "others take what a slow one would be late with"
    assert 0.5 < kept("disk", lost=True) < 0.8, "what its process kept has gone with it"


def test_a_lease_takes_no_longer_where_there_are_many_blocks_and_workers() -> None:
    blocks, hosts = 50_000, 1_000
    rng = np.random.default_rng(0)
    beside = Groups(np.arange(0, 3 * blocks + 1, 3), np.sort(rng.integers(0, hosts, (blocks, 3)), axis=1).ravel())
    rows = np.full(blocks, 1_000)
    layout = BlockLayout(rows, tuple(range(hosts)), beside)
    books = BlockLeases(EpochOrder(rows, epoch=0, seed=1), [(0, blocks * 1_000)], layout, 32)
    lessees = [Lessee(NodeId(role=Role.WORKER, index=i), 0) for i in range(hosts)]
    begun_s = time.process_time()
    leased = [books.lease(each, i, 5_000, share=1 / hosts) for _ in range(2) for i, each in enumerate(lessees)]
    for each in lessees[:20]:
        books.close(each)
    took_s = time.process_time() - begun_s
    assert sum(len(found.block) for found in leased) == 10_000
    assert took_s < 2.0, "2,000 leases and 20 losses"
