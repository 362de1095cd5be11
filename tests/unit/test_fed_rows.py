"""Rows that Spark feeds to workers under parameter servers, some of which are lost: each row counts once an epoch."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lakes import id_table, lake_config, plan_lake, write_lake

from sparktf.driver.attempt.rows.fed_rows import Claim, Claims, FedRows
from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.attempt.rows.leases import Lessee
from sparktf.driver.attempt.rows.ledger import FeedAddress, Ledger
from sparktf.driver.gang.handlers import Answers
from sparktf.driver.plan.plan import Plan
from sparktf.errors import DataError, RefusedError, RowAccountingError
from sparktf.feed.channel.held import SPLIT_SPAN
from sparktf.feed.channel.staged_rows import Budget
from sparktf.feed.channel.staging import Staging
from sparktf.sequence import Cursor, Interval, Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Action, AssignmentRequest
from sparktf.wire.data import DataAddress, Holding, Lease, LeaseRequest, Sealed, Span, Work, WorkRequest
from sparktf.wire.leasing import Closed, Fetched, Receipt

TRAIN = Stream.TRAIN
CHIEF = NodeId(role=Role.CHIEF, index=0)
NODES = tuple(NodeId(role=Role.WORKER, index=i) for i in range(3))
SIZES = [50, 0, 7, 120, 33, 1]
Row = tuple[int, int]


class Worker:
    """One incarnation: a staging, what it has read of it, and receipts."""

    def __init__(self, walk: Walk, node: NodeId, incarnation: int) -> None:
        self.walk, self.lessee = walk, Lessee(node, incarnation)
        walk.folders += 1
        folder = walk.folder / str(walk.folders)
        folder.mkdir()
        self.staging = Staging(
            walk.plan.spec, TRAIN, block_rows=20, budget=Budget(1 << 30), room=1 << 30, folder=folder
        )
        self.address = DataAddress(host="h", socket=str(node.index), location=f"{node.index}.{incarnation}")
        self.epoch, self.is_lost, self.asked = -1, False, 0
        self.hand: list[Interval] = []
        self.receipts: list[Receipt] = []
        self.told = 0

    @property
    def sender(self) -> dict[str, Any]:
        return {"attempt": 1, "node": self.lessee.node, "incarnation": self.lessee.incarnation}

    def begin(self, epoch: int) -> None:
        walk = self.walk
        request = AssignmentRequest(**self.sender, stream=TRAIN, epoch=epoch)
        done = walk.cursor.done if epoch == walk.cursor.epoch else ()
        share = walk.fed.share(request, done, keep=walk.keep)
        self.staging.begin(epoch, share.done, keep=share.keep, again=share.again)
        self.epoch = epoch

    def read(self) -> bool:
        """Reads a part that waits, if there is one."""
        queued = self.staging.next(0.0, (self.epoch, 1))
        if queued is None:
            return False
        part = self.staging.part(queued)
        part.read()
        self.hand.append((part.first_row, part.first_row + part.rows))
        return True

    def train(self, rng: random.Random) -> None:
        """Trains some of what is at hand."""
        if not self.hand:
            return
        start, stop = self.hand.pop(0)
        middle = rng.randint(start + 1, stop)
        self.hand[:0] = [(middle, stop)] if middle < stop else []
        receipt = Receipt(
            node=self.lessee.node,
            incarnation=self.lessee.incarnation,
            number=len(self.receipts) + 1,
            epoch=self.epoch,
            steps=1,
            intervals=((start, middle),),
            rows=middle - start,
        )
        self.receipts.append(receipt)

    def request(self) -> WorkRequest:
        """Returns what it says when it has nothing to read."""
        self.asked += 1
        in_hand = sum(stop - start for start, stop in self.hand)
        holding = Holding(in_hand=in_hand, moves=self.staging.moves, receipts=len(self.receipts))
        span = Span(attempt=1, stream=TRAIN, epoch=self.epoch)
        return WorkRequest(**self.sender, number=self.asked, span=span, starved_s=9.0, holding=holding)

    def ask(self, rng: random.Random) -> Work:
        """Looks for more, as a feed does that has nothing to read."""
        request = self.request()
        work = self.walk.serve(request)
        if rng.random() < 0.2:
            self.walk.on_the_way.append(request)
        if self.walk.on_the_way and rng.random() < 0.1:  # it comes twice, the second time late
            with suppress(RefusedError):
                self.walk.serve(self.walk.on_the_way.pop())
        for peer in work.peers:
            found = self.walk.at(peer).staging.give(self.epoch)
            if found is not None:
                queued, batches = found
                rows = self.staging.new_rows()
                for batch in batches:
                    rows.append(batch)
                self.staging.accept(queued.split, queued.first_row, queued.start, queued.stop, rows)
                break
        return work


class Walk:
    """Random steps of three workers, their feeders, their coordinator and their driver.

    Attributes:
        counted: How often each row has counted in this epoch.
        computed: How often each split was computed.
    """

    def __init__(self, seed: int, folder: Path, plan: Plan, losses: int) -> None:
        self.rng, self.folder, self.plan, self.folders = random.Random(seed), folder, plan, 0
        self.keep = self.rng.random() < 0.5
        self.cursor = Cursor(epoch=1, done=((5, 40), (3 * SPLIT_SPAN, 3 * SPLIT_SPAN + 60)))
        config = lake_config(folder)
        config = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": 8})})
        self.books = LeaseBooks(plan, self.cursor, config, dict.fromkeys(NODES, "h"))
        self.fed = FedRows(self.books)
        places = {node: FeedAddress("h", f"jvm{node.index}") for node in NODES}
        expected = {0: 50}
        self.ledger = self.fed.ledger = Ledger(places, lambda: 0.0, expected=expected, epoch=1, rebalance=True)
        self.losses = losses
        self.known: dict[str, Worker] = {}
        self.workers: list[Worker] = []
        self.lost: list[Worker] = []
        self.answers = Answers()
        self.on_the_way: list[WorkRequest] = []
        self.tasks: list[Iterator[None]] | None = None
        self.now = (0, 0)
        self.counted: Counter[Row] = Counter()
        self.computed: Counter[int] = Counter()
        for node in NODES:
            self.join(node, 0)

    def serve(self, request: WorkRequest) -> Work:
        """Returns what a worker is answered, each time that its message comes."""
        answer = self.answers.once(request.trainer, Action.WORK, request.number, lambda: self.fed.work(request, {}))
        assert isinstance(answer, Work)
        return answer

    def at(self, address: DataAddress) -> Worker:
        return self.known[address.location]

    def join(self, node: NodeId, incarnation: int) -> Worker:
        worker = Worker(self, node, incarnation)
        self.workers.append(worker)
        self.known[worker.address.location] = worker
        self.fed.ready(node, worker.address)
        return worker

    def go_through(self, epoch: int) -> None:
        """Goes on until all that is left of an epoch has counted, and a worker hears so."""
        self.counted, self.computed = Counter(), Counter()
        for _ in range(200_000):
            worker, action = self.rng.choice(self.workers), self.rng.random()
            if action < 0.1 and self.tasks:
                self._step_task(self.rng.choice(self.tasks))
            elif worker.epoch < epoch:
                worker.begin(epoch)
            elif action < 0.6:
                if not worker.read() and worker.ask(self.rng).ended:
                    return
            elif action < 0.8:
                worker.train(self.rng)
            elif action < 0.9:
                self.tell(worker)
            elif action < 0.902 and self.losses:
                self.lose(worker)
            elif self.lost:
                self.close(self.rng.choice(self.lost))
            self._watch(epoch)
        raise AssertionError("the epoch never ends")

    def tell(self, worker: Worker, *closed: Closed) -> None:
        """The coordinator has some of a worker's receipts, and tells the driver."""
        until = self.rng.randint(worker.told, len(worker.receipts))
        new = worker.receipts[worker.told : until]
        worker.told = until
        for receipt in new:
            for start, stop in receipt.intervals:
                self.counted.update(divmod(row, SPLIT_SPAN) for row in range(start, stop))
        self.books.fetched(Fetched(attempt=1, node=CHIEF, receipts=tuple(new), closed=closed))

    def lose(self, worker: Worker) -> None:
        """A worker dies; another one takes its place at once, while the coordinator has not closed it."""
        self.losses -= 1
        node, incarnation = worker.lessee
        worker.is_lost = True
        self.workers.remove(worker)
        self.lost.append(worker)
        self.fed.lose(node, incarnation)
        self.fed.succeed(node, "h", f"jvm{node.index}")
        self.join(node, incarnation + 1)

    def close(self, worker: Worker) -> None:
        self.lost.remove(worker)
        self.tell(worker, Closed(node=worker.lessee.node, incarnation=worker.lessee.incarnation))

    def seal(self, worker: Worker, split: int, turn: int = 0, rows: int = 10) -> None:
        """A split of epoch 2 comes to a worker."""
        span = Span(attempt=1, stream=TRAIN, epoch=2, split=split, turn=turn)
        jvm = f"jvm{worker.lessee.node.index}"
        assert self.fed.lease(LeaseRequest(span=span, host="h", jvm=jvm)).data == worker.address
        self.fed.sealed(Sealed(**worker.sender, span=span, rows=rows))

    def _watch(self, epoch: int) -> None:
        if self.tasks is None and self.fed.wanted:
            assert self.fed.wanted == [(TRAIN, epoch)]
            self.fed.wanted.clear()
            turn = self.ledger.book(TRAIN, epoch).turn
            self.tasks = [self._task(epoch, split, turn) for split in range(len(SIZES))]
            self.now = epoch, turn
        if self.tasks is not None and not self.tasks:
            self.tasks = None
            self.ledger.end(TRAIN, epoch, len(SIZES))
        self.fed.feed_again()

    def _step_task(self, task: Iterator[None]) -> None:
        assert self.tasks is not None
        try:
            next(task)
        except StopIteration:
            self.tasks.remove(task)
            if self.rng.random() < 0.05:
                epoch, turn = self.now
                self.tasks.append(self._task(epoch, self.rng.randrange(len(SIZES)), turn))  # a copy

    def _task(self, epoch: int, split: int, turn: int) -> Iterator[None]:
        """Does what `sparktf.executor.feeder.feed` does, until it is done."""
        while True:
            yield
            span = Span(attempt=1, stream=TRAIN, epoch=epoch, split=split, turn=turn)
            jvm = f"jvm{self.rng.randrange(4)}"
            lease = self.fed.lease(LeaseRequest(span=span, host="h", jvm=jvm))
            if lease.sealed:
                return
            if lease.data is None:
                continue
            yield
            worker = self.at(lease.data)
            with suppress(Gone):
                if worker.is_lost or worker.epoch != epoch:
                    raise Gone
                yield from self._put(worker, span, lease.done)
                return

    def _put(self, worker: Worker, span: Span, done: tuple[Interval, ...]) -> Iterator[None]:
        held = worker.staging.admit(span.epoch, span.split, span.turn)
        if held is not None:
            self._sealed(worker, span, held)
            if span.turn:
                worker.staging.queue_again(span.epoch, span.split, span.turn, done)
            return
        rows = worker.staging.new_rows()
        self.computed[span.split] += 1
        for batch in id_table(0, SIZES[span.split]).to_batches(max_chunksize=16):
            yield
            rows.append(batch)
        yield
        count = worker.staging.end(span.epoch, span.split, rows)
        self._sealed(worker, span, count)
        yield
        worker.staging.seal(span.epoch, span.split, rows, "unix", turn=span.turn, done=done if span.turn else None)

    def _sealed(self, worker: Worker, span: Span, rows: int) -> None:
        if worker.is_lost:
            raise Gone
        self.fed.sealed(Sealed(**worker.sender, span=span, rows=rows))


class Gone(Exception):
    """A worker cannot be reached."""


@pytest.fixture
def fed_plan(tmp_path: Path) -> Plan:
    return dataclasses.replace(plan_lake(write_lake(tmp_path / "lake", [3])), staged=(TRAIN,))


@pytest.mark.parametrize(("seed", "losses"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 6), (5, 6), (6, 6), (7, 6)])
def test_each_row_counts_once_in_every_epoch_whoever_is_lost(
    seed: int, losses: int, tmp_path: Path, fed_plan: Plan
) -> None:
    walk = Walk(seed, tmp_path, fed_plan, losses)
    for epoch in (1, 2, 3):
        walk.go_through(epoch)
        done = walk.cursor.done if epoch == 1 else ()
        gone = {divmod(row, SPLIT_SPAN) for start, stop in done for row in range(start, stop)}
        every = {(split, row) for split, rows in enumerate(SIZES) for row in range(rows)}
        for worker in [*walk.workers, *walk.lost]:
            worker.hand.clear()
        assert walk.counted == Counter(every - gone)
        books = walk.books.receipts(epoch)
        assert books is not None
        assert books.counts.trained == len(every - gone)
        assert losses or not books.replayed
        assert walk.ledger.rows(TRAIN, epoch) == sum(SIZES)
        assert losses or epoch == 1 or walk.keep is not bool(walk.computed)
        walk.books.end(epoch)


A, B = (Lessee(node, 0) for node in NODES[:2])


class TestClaims:
    """When no worker has a row left."""

    def claims(self, *said: tuple[Lessee, int, int, int]) -> Claims:
        """Returns what is known once workers have said so: who, which time, rows in hand, moves."""
        made = Claims()
        for lessee, _, in_hand, moves in said:
            made.note(lessee, Holding(in_hand=in_hand, moves=moves, receipts=7), 2)
        return made

    def test_none_has_when_all_say_so_again_after_all_have_said_so(self) -> None:
        said = [(A, 1, 0, 4), (B, 1, 0, 9), (A, 2, 0, 4)]
        assert self.claims(*said).settled(2) is None
        assert self.claims(*said, (B, 2, 0, 9)).settled(2) == {A: Claim(4, 7), B: Claim(9, 7)}

    def test_what_was_said_before_the_others_spoke_does_not_count_as_again(self) -> None:
        assert self.claims((A, 1, 0, 4), (A, 2, 0, 4), (B, 1, 0, 9), (B, 2, 0, 9)).settled(2) is None

    @pytest.mark.parametrize("other", [(A, 3, 0, 6), (A, 3, 2, 4)], ids=["it got some since", "it has some"])
    def test_one_that_got_rows_between_begins_anew(self, other: tuple[Lessee, int, int, int]) -> None:
        said = [(A, 1, 0, 4), (B, 1, 0, 9), (A, 2, 0, 4), other, (B, 2, 0, 9)]
        assert self.claims(*said).settled(2) is None

    def test_where_nobody_lives_nothing_is_settled(self) -> None:
        assert self.claims().settled(0) is None


def test_a_late_copy_of_what_was_said_before_rows_came_does_not_say_that_none_are_left(
    tmp_path: Path, fed_plan: Plan
) -> None:
    walk = Walk(0, tmp_path, fed_plan, 0)
    walk.workers = walk.workers[:2]
    for worker in walk.workers:
        worker.begin(2)
    walk.fed.wanted.clear()
    said = [worker.request() for _ in range(2) for worker in walk.workers]
    for request in said:
        walk.serve(request)
    for split, worker in enumerate(walk.workers):
        walk.seal(worker, split)
    walk.ledger.end(TRAIN, 2, 2)
    for request in said:
        with suppress(RefusedError):
            walk.serve(request)
    walk.fed.feed_again()
    assert walk.fed.wanted == []


class TestALoss:
    """One worker has trained 3 of the 10 rows of partition 0, and is lost; the other one has partition 1."""

    @pytest.fixture
    def walk(self, tmp_path: Path, fed_plan: Plan) -> Walk:
        made = Walk(0, tmp_path, fed_plan, 0)
        made.workers = made.workers[:2]
        for worker in made.workers:
            worker.begin(2)
        made.fed.wanted.clear()
        for split, worker in enumerate(made.workers):
            made.seal(worker, split)
        made.ledger.end(TRAIN, 2, 2)
        lost, other = made.workers
        made.books.fetched(told(self.receipt(lost, 0, 0, 3)))
        made.books.fetched(told(self.receipt(other, 1, 0, 10)))
        made.fed.lose(lost.lessee.node, 0)
        made.workers.remove(lost)
        return made

    def receipt(self, worker: Worker, split: int, start: int, stop: int) -> Receipt:
        first = split * SPLIT_SPAN
        worker.receipts.append(
            Receipt(
                node=worker.lessee.node,
                incarnation=0,
                number=len(worker.receipts) + 1,
                epoch=2,
                steps=1,
                intervals=((first + start, first + stop),),
                rows=stop - start,
            )
        )
        return worker.receipts[-1]

    def settle(self, walk: Walk) -> list[tuple[Stream, int]]:
        for _ in range(2):
            walk.workers[0].ask(walk.rng)
        walk.fed.feed_again()
        return walk.fed.wanted

    def test_nothing_is_fed_again_while_the_coordinator_may_tell_more_of_it(self, walk: Walk) -> None:
        assert self.settle(walk) == []
        walk.books.fetched(told(closed=NODES[0]))
        assert self.settle(walk) == [(TRAIN, 2)]

    def test_what_it_may_have_trained_is_in_doubt_until_that_is_fed_again(self, walk: Walk) -> None:
        assert walk.fed.in_doubt(2) == 7
        walk.books.fetched(told(closed=NODES[0]))
        self.settle(walk)
        books = walk.books.receipts(2)
        assert books is not None
        assert (walk.fed.in_doubt(2), books.replayed) == (0, 7)

    def test_only_its_partition_is_fed_again_and_the_feeder_knows_what_of_it_is_trained(self, walk: Walk) -> None:
        walk.books.fetched(told(closed=NODES[0]))
        assert self.settle(walk) == [(TRAIN, 2)]
        leases = [
            walk.fed.lease(
                LeaseRequest(span=Span(attempt=1, stream=TRAIN, epoch=2, split=split, turn=1), host="h", jvm="jvm1")
            )
            for split in range(2)
        ]
        assert leases[0].data == walk.workers[0].address
        assert leases[0].done == ((0, 3),)
        assert leases[1].sealed
        books = walk.books.receipts(2)
        assert books is not None
        assert books.replayed == 7

    def test_it_is_fed_again_once(self, walk: Walk) -> None:
        walk.books.fetched(told(closed=NODES[0]))
        self.settle(walk)
        walk.fed.wanted.clear()
        walk.seal(walk.workers[0], 0, turn=1)
        walk.ledger.end(TRAIN, 2, 2)
        with pytest.raises(RowAccountingError, match="epoch 2: 7 rows of 1 partitions are held by no worker, although"):
            self.settle(walk)

    def test_a_partition_that_comes_with_other_rows_is_refused_as_data(self, walk: Walk) -> None:
        walk.books.fetched(told(closed=NODES[0]))
        self.settle(walk)
        with pytest.raises(
            DataError, match="partition 0 of the data has 11 rows, but had 10 before its worker was lost"
        ):
            walk.seal(walk.workers[0], 0, turn=1, rows=11)

    def test_feeders_of_the_turn_before_get_no_lease(self, walk: Walk) -> None:
        walk.books.fetched(told(closed=NODES[0]))
        self.settle(walk)
        with pytest.raises(RefusedError, match="epoch 2 of train is not fed"):
            walk.seal(walk.workers[0], 0)

    def test_the_end_comes_only_when_all_of_it_is_trained(self, walk: Walk) -> None:
        work = walk.workers[0].ask(walk.rng)
        assert (work.ended, work.fed, work.rows) == (False, True, 20)


def told(*receipts: Receipt, closed: NodeId | None = None) -> Fetched:
    lost = () if closed is None else (Closed(node=closed, incarnation=0),)
    return Fetched(attempt=1, node=CHIEF, receipts=receipts, closed=lost)


class TestLeasesWhileWorkersAreLost:
    def asked(self, walk: Walk, split: int, jvm: int = 0) -> Lease:
        span = Span(attempt=1, stream=TRAIN, epoch=1, split=split)
        return walk.fed.lease(LeaseRequest(span=span, host="h", jvm=f"jvm{jvm}"))

    @pytest.fixture
    def walk(self, tmp_path: Path, fed_plan: Plan) -> Walk:
        made = Walk(0, tmp_path, fed_plan, 0)
        for worker in made.workers:
            worker.begin(1)
        return made

    def test_what_a_lost_one_had_not_whole_goes_to_another(self, walk: Walk) -> None:
        assert self.asked(walk, 1).data == walk.workers[0].address
        walk.fed.lose(NODES[0], 0)
        assert self.asked(walk, 1).data in {walk.workers[1].address, walk.workers[2].address}

    def test_what_it_had_whole_is_not_wanted_for_now(self, walk: Walk) -> None:
        self.asked(walk, 1)
        walk.fed.sealed(Sealed(**walk.workers[0].sender, span=Span(attempt=1, stream=TRAIN, epoch=1, split=1), rows=4))
        walk.fed.lose(NODES[0], 0)
        assert self.asked(walk, 1) == Lease(sealed=True)

    def test_its_successor_gets_some_once_it_has_begun(self, walk: Walk) -> None:
        for node in NODES:
            walk.fed.lose(node, 0)
        assert self.asked(walk, 1) == Lease()
        successor = walk.join(NODES[0], 1)
        assert self.asked(walk, 1) == Lease()
        successor.begin(1)
        assert self.asked(walk, 1).data == successor.address
        assert walk.ledger.is_ready
