"""Rows that a worker leases as it goes: which come, which come again, and what the receipts say of them."""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import array, deal, ids, lake_config, plan_lake, write_file, write_lake

from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.plan.plan import Plan
from sparktf.errors import BadValueError, ControlError, SourceNotFoundError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.aside import BadRow
from sparktf.feed.arrays.columns import Columns, Ragged, Strings
from sparktf.feed.blocks import PieceReader
from sparktf.feed.leased_feed import LeasedFeed, Take
from sparktf.feed.leased_parts import LeasedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.feed.receipts import Receipts
from sparktf.knobs import KNOBS
from sparktf.results.result import NodeInput
from sparktf.sequence import Cursor, Interval, Piece, Stream, merge
from sparktf.storage.file_systems import open_storage
from sparktf.topology import NodeId, Role
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Closed, Fetched, Receipt
from sparktf.wire.sender import Sender

ROWS = 229
BATCH = 8
UPDATES = 4
WORKER = NodeId(role=Role.WORKER, index=1)
LONG_S = 10.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOBS, "staged_poll_s", 0.001)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_lake(write_lake(tmp_path / "lake"), shuffle_rows=40, seed=3)


class Lender:
    """A driver with one worker: leases the pieces of an epoch one at a time, as many as may be leased now.

    Attributes:
        leased: Rows so far.
        asked: About how many rows each call has asked for.
        calls: Told of every call.
    """

    def __init__(self, pieces: Sequence[Piece], now: int = 1 << 30) -> None:
        self.leased = 0
        self.asked: list[int] = []
        self.calls = threading.Condition()
        self._pieces = list(pieces)
        self._now = now

    def __call__(self, rows: int) -> BlockLease:
        with self.calls:
            self.asked.append(rows)
            self.calls.notify_all()
            if not self._pieces:
                return BlockLease(ended=True)
            if not self._now:
                return BlockLease()
            self._now -= 1
            self.leased += self._pieces[0].rows
            return BlockLease(pieces=(self._pieces.pop(0),))

    def allow(self, pieces: int) -> None:
        """Has more pieces leased."""
        with self.calls:
            self._now += pieces

    def wait_for_calls(self, count: int) -> None:
        """Waits until it was asked so often."""
        with self.calls:
            assert self.calls.wait_for(lambda: len(self.asked) >= count, LONG_S)

    def wait_for_rows(self, rows: int) -> None:
        """Waits until it has leased so many rows."""
        with self.calls:
            assert self.calls.wait_for(lambda: self.leased >= rows, LONG_S)


def pieces_of(plan: Plan, epoch: int = 0) -> Sequence[Piece]:
    return deal(plan, epoch=epoch)[0].pieces


def opened(
    plan: Plan,
    lend: Callable[[int], BlockLease],
    receipts: Receipts | None = None,
    *,
    epoch: int = 0,
    limits: FeedLimits = FeedLimits(),  # noqa: B008 - a tuple
    bad: list[BadRow] | None = None,
) -> LeasedFeed:
    def keep(rows: Sequence[BadRow], *, too_many: bool) -> None:
        del too_many
        if bad is not None:
            bad.extend(rows)

    reader = PieceReader(plan.spec, Stream.TRAIN, epoch, open_storage, sets_aside=limits.max_bad_rows > 0)
    parts = LeasedParts(reader, lend, BATCH)
    feed = NodeFeed(plan.spec, parts, limits=limits, on_bad_rows=keep)
    return LeasedFeed(epoch, plan.spec, feed, receipts or Receipts(WORKER, 0), batch_rows=BATCH, expect=parts.expect)


def takes(feed: LeasedFeed, updates: int = UPDATES, loss: float = 0.0) -> Iterator[Take]:
    """Yields all takes until the end, each marked before the next."""
    while not (take := feed.take(updates, 0.05)).drained:
        if take.rows:
            yield take
        feed.done(take.number, loss)


def ids_in(take: Take) -> list[int]:
    found: list[int] = array(take.columns, "input:id").tolist()
    assert len(found) == take.rows
    return found


def first_take(feed: LeasedFeed, updates: int = UPDATES) -> Take:
    """Returns a take with rows, which are sure to come."""
    take = feed.take(updates, LONG_S)
    assert take.rows
    return take


def receipts_of(receipts: Receipts) -> list[Receipt]:
    return [Receipt.model_validate(fields) for fields in json.loads(zlib.decompress(receipts.unacknowledged()))]


def covered(receipts: Receipts) -> list[Interval]:
    return merge(interval for receipt in receipts_of(receipts) for interval in receipt.intervals)


class TestRows:
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_each_epoch_brings_the_leased_rows_once_and_in_the_order_of_a_share_that_is_dealt(
        self, tmp_path: Path, shuffle: bool
    ) -> None:
        plan = plan_lake(write_lake(tmp_path), shuffle_rows=40, seed=3, shuffle=shuffle)
        receipts = Receipts(WORKER, 0)
        for epoch in range(3):
            feed = opened(plan, Lender(pieces_of(plan, epoch)), receipts, epoch=epoch)
            assert [i for take in takes(feed) for i in ids_in(take)] == ids(plan, deal(plan, epoch=epoch))
            assert sum(r.rows for r in receipts_of(receipts) if r.epoch == epoch) == ROWS
            feed.close()

    def test_blocks_in_any_order_and_in_pieces_bring_each_row_once(self, plan: Plan) -> None:
        cut = [
            piece.model_copy(
                update={"start": piece.start + at, "stop": min(piece.start + at + 7, piece.stop), "first_row": first}
            )
            for piece in pieces_of(plan)
            for at in range(0, piece.rows, 7)
            for first in [piece.first_row + at]
        ]
        receipts = Receipts(WORKER, 0)
        feed = opened(plan, Lender(cut[1::2] + cut[::2][::-1]), receipts)
        assert sorted(i for take in takes(feed) for i in ids_in(take)) == list(range(ROWS))
        assert covered(receipts) == [(0, ROWS)]

    def test_takes_are_whole_updates_up_to_what_was_asked_and_the_last_is_the_rest(self, plan: Plan) -> None:
        rows = [take.rows for take in takes(opened(plan, Lender(pieces_of(plan))), updates=3)]
        assert sum(rows) == ROWS
        assert max(rows) == 3 * BATCH
        assert [n % BATCH for n in rows] == [0] * (len(rows) - 1) + [ROWS % BATCH]

    def test_what_is_no_whole_update_comes_when_nothing_can_be_leased_and_the_next_rows_when_it_can(
        self, plan: Plan
    ) -> None:
        first, *others = pieces_of(plan)
        assert first.rows % BATCH
        lend = Lender([first, *others], now=1)
        feed = opened(plan, lend)
        found: list[int] = []
        while sum(found) < first.rows:
            take = first_take(feed)
            found.append(take.rows)
            feed.done(take.number, 0.0)
        assert found[-1] % BATCH == first.rows % BATCH
        assert not any(n % BATCH for n in found[:-1])
        none = feed.take(UPDATES, 0.0)
        assert (none.number, none.rows, none.drained) == (0, 0, False)
        assert none.columns.keys() == {"input:id", "input:x", "target:y"}
        lend.allow(1)
        assert not set(ids_in(first_take(feed))) - set(ids(plan, deal(plan))[first.rows :])
        feed.close()

    def test_nobody_waits_longer_than_told_neither_for_rows_nor_at_the_end(self, plan: Plan) -> None:
        for pieces in (pieces_of(plan), ()):
            lend = Lender(pieces, now=0)
            feed = opened(plan, lend)
            lend.wait_for_calls(1)
            before_s = time.monotonic()
            take = feed.take(UPDATES, 0.05)
            assert 0.05 <= time.monotonic() - before_s < LONG_S
            assert (take.rows, take.drained) == (0, not pieces)
            feed.close()

    def test_text_and_lists_come_as_they_are_and_again_when_a_take_is_broken_off(self, tmp_path: Path) -> None:
        words = [f"w{i % 5}" for i in range(50)]
        lists = [[f"l{i}", "x"][: i % 3] for i in range(50)]
        table = pa.table({"id": np.arange(50), "w": words, "l": lists, "n": [[i] * (i % 4) for i in range(50)]})
        write_file(tmp_path / "f.parquet", table, group_rows=9)
        inputs = {"id": "id", "w": "w", "l": {"columns": "l", "ragged": True}, "n": {"columns": "n", "ragged": True}}
        plan = plan_lake(tmp_path, inputs=inputs, targets={"y": "id"}, shuffle_rows=20)
        feed = opened(plan, Lender(pieces_of(plan)))
        broken = first_take(feed)
        again = first_take(feed, updates=1)
        assert rows_in(again.columns) == rows_in(broken.columns)[:BATCH]
        feed.done(again.number, 0.0)
        found = rows_in(again.columns) + [row for take in takes(feed) for row in rows_in(take.columns)]
        wanted = [(i, words[i].encode(), [v.encode() for v in lists[i]], [i] * (i % 4)) for i in range(50)]
        assert sorted(found) == wanted


def rows_in(columns: Columns) -> list[tuple[Any, ...]]:
    w, texts, numbers = columns["input:w"], columns["input:l"], columns["input:n"]
    assert isinstance(w, Strings)
    lists = [as_lists(column) for column in (texts, numbers)]
    return list(zip(array(columns, "input:id").tolist(), w.to_numpy().tolist(), *lists, strict=True))


def as_lists(column: Any) -> list[list[Any]]:
    assert isinstance(column, Ragged)
    flat = column.values.to_numpy() if isinstance(column.values, Strings) else column.values
    return [flat[a:b].tolist() for a, b in zip(column.splits[:-1], column.splits[1:], strict=True)]


class TestBrokenTakes:
    def test_the_very_rows_come_again_first_and_count_once_and_as_replayed(self, plan: Plan) -> None:
        receipts = Receipts(WORKER, 2)
        feed = opened(plan, Lender(pieces_of(plan)), receipts)
        trained, broken = [], 0
        for i in range(1 << 30):
            take = feed.take(UPDATES, 0.05)
            if i % 3 == 1 and take.rows:
                again = first_take(feed)
                assert ids_in(again) == ids_in(take)
                assert again.number > take.number
                assert feed.done(take.number, 1.0) is None
                broken += take.rows
                take = again
            feed.done(take.number, 1.0)
            trained += ids_in(take)
            if take.drained:
                break
        assert trained == ids(plan, deal(plan))
        assert sum(r.replayed for r in receipts_of(receipts)) == broken > 0
        assert sum(r.rows for r in receipts_of(receipts)) == ROWS
        assert covered(receipts) == [(0, ROWS)]

    def test_fewer_updates_cut_what_comes_again_and_no_other_rows_come_before_its_end(self, tmp_path: Path) -> None:
        plan, receipts = plan_lake(write_lake(tmp_path, [100])), Receipts(WORKER, 0)
        feed = opened(plan, Lender(pieces_of(plan)), receipts)
        broken = first_take(feed, updates=4)
        assert broken.rows == 4 * BATCH
        sizes, found = [], []
        for updates in (1, 2, 4, 1):
            take = first_take(feed, updates)
            sizes.append(take.rows)
            found += ids_in(take)
            feed.done(take.number, 0.0)
        assert sizes == [BATCH, 2 * BATCH, BATCH, BATCH]
        assert found[: 4 * BATCH] == ids_in(broken)
        assert [r.replayed for r in receipts_of(receipts)] == [BATCH, 2 * BATCH, BATCH, 0]
        feed.close()

    def test_what_is_certainly_not_trained_comes_again_and_does_not_count_as_replayed(self, tmp_path: Path) -> None:
        plan, receipts = plan_lake(write_lake(tmp_path, [100])), Receipts(WORKER, 0)
        feed = opened(plan, Lender(pieces_of(plan)), receipts)
        take = first_take(feed, updates=4)
        assert feed.done(take.number, 1.0, BATCH, (5.0, BATCH)) is not None
        again = first_take(feed, updates=2)
        assert ids_in(again) == ids_in(take)[BATCH : 3 * BATCH]
        assert feed.done(again.number, 0.0, 0) is None
        broken = first_take(feed, updates=2)
        assert ids_in(broken) == ids_in(again)
        after = first_take(feed, updates=4)  # without a word about the one before
        assert ids_in(after) == ids_in(take)[BATCH:]
        assert feed.done(after.number, 3.0) is not None
        assert [(r.rows, r.replayed, r.loss, r.metrics) for r in receipts_of(receipts)] == [
            (BATCH, 0, 1.0, (5.0, BATCH)),
            (3 * BATCH, 2 * BATCH, 3.0, ()),
        ]
        feed.close()

    def test_a_take_that_is_marked_late_counts_nothing_whatever_epoch_it_was_of(self, plan: Plan) -> None:
        receipts = Receipts(WORKER, 0)
        before = opened(plan, Lender(pieces_of(plan)), receipts)
        late = first_take(before)
        before.close()
        feed = opened(plan, Lender(pieces_of(plan, 1)), receipts, epoch=1)
        take = first_take(feed)
        for number in (late.number, take.number + 1, 0):
            assert feed.done(number, 1.0) is None
        assert before.done(late.number, 1.0) is None
        assert receipts_of(receipts) == []
        assert feed.done(take.number, 1.0) is not None
        assert feed.done(take.number, 1.0) is None
        assert [(r.epoch, r.rows) for r in receipts_of(receipts)] == [(1, take.rows)]
        feed.close()

    def test_no_rows_for_no_updates_and_none_are_lost_by_it(self, plan: Plan) -> None:
        feed = opened(plan, Lender(pieces_of(plan)))
        broken = first_take(feed)
        assert feed.take(0, 0.0).rows == 0
        assert ids_in(first_take(feed)) == ids_in(broken)
        feed.close()

    def test_two_executions_that_ask_at_once_never_hold_rows_of_one_receipt_twice(self, plan: Plan) -> None:
        receipts = Receipts(WORKER, 0)
        feed = opened(plan, Lender(pieces_of(plan)), receipts)

        def execute() -> None:
            while not (take := feed.take(1, 0.01)).drained:
                feed.done(take.number, 0.0)

        executions = [threading.Thread(target=execute) for _ in range(4)]
        for execution in executions:
            execution.start()
        for execution in executions:
            execution.join()
        assert covered(receipts) == [(0, ROWS)]
        assert sum(r.rows for r in receipts_of(receipts)) == ROWS


class TestReceipts:
    def test_they_tell_updates_rows_loss_and_what_was_read(self, plan: Plan) -> None:
        receipts = Receipts(WORKER, 5)
        feed = opened(plan, Lender(pieces_of(plan)), receipts, epoch=2)
        found = list(takes(feed, loss=0.25))
        told = receipts_of(receipts)
        assert [r.number for r in told] == list(range(1, len(found) + 1))
        assert {(r.node, r.incarnation, r.epoch, r.loss) for r in told} == {(WORKER, 5, 2, 0.25)}
        assert [r.rows for r in told] == [take.rows for take in found]
        assert [r.steps for r in told] == [-(-take.rows // BATCH) for take in found]
        read = sum((r.input for r in told), NodeInput())
        assert read.rows == {"direct": ROWS}
        assert read.nbytes == plan.nbytes(Stream.TRAIN)
        assert 0 < read.wait_s < read.seconds
        assert all(r.input.seconds > 0 for r in told)

    def test_each_is_told_until_this_incarnation_is_said_to_be_known_that_far(self, plan: Plan) -> None:
        receipts = Receipts(WORKER, 1)
        feed = opened(plan, Lender(pieces_of(plan)), receipts)
        for _ in range(3):
            feed.done(first_take(feed).number, 0.0)
        for incarnation, number, left in [(0, 3, [1, 2, 3]), (1, 0, [1, 2, 3]), (1, 2, [3]), (1, 1, [3]), (1, 3, [])]:
            receipts.acknowledge(incarnation, number)
            assert [r.number for r in receipts_of(receipts)] == left
        feed.done(first_take(feed).number, 0.0)
        assert [r.number for r in receipts_of(receipts)] == [4]
        feed.close()


class TestAhead:
    def test_the_next_block_is_read_while_one_is_trained_and_no_more(self, tmp_path: Path) -> None:
        plan = plan_lake(write_lake(tmp_path, [400], group_rows=100), shuffle_rows=100)
        lend = Lender(pieces_of(plan))
        feed = opened(plan, lend)
        handed = 0
        while handed < 300:
            take = first_take(feed)
            handed += take.rows
            lend.wait_for_rows(min(handed + 1, 400))
            assert lend.leased <= handed + 2 * 100
            feed.done(take.number, 0.0)
        assert set(lend.asked) == {BATCH, UPDATES * BATCH}
        feed.close()

    def test_of_small_pieces_about_two_takes_are_leased_ahead(self, plan: Plan) -> None:
        pieces = [piece for share in deal(plan, nodes=40) for piece in share.pieces]
        assert max(piece.rows for piece in pieces) < BATCH
        lend = Lender(pieces)
        feed = opened(plan, lend)
        handed = 0
        for take in takes(feed):
            handed += take.rows
            assert lend.leased <= handed + 2 * UPDATES * BATCH
        assert handed == ROWS

    def test_whoever_takes_little_at_once_leaves_the_rest_to_others(self, plan: Plan) -> None:
        pieces = [piece for share in deal(plan, nodes=40) for piece in share.pieces]
        lend = Lender(pieces)
        feed = opened(plan, lend)
        lend.wait_for_rows(BATCH)
        handed = 0
        for take in takes(feed, updates=1):
            handed += take.rows
            assert lend.leased <= handed + 3 * BATCH
        assert handed == ROWS

    def test_little_memory_holds_nothing_up(self, plan: Plan) -> None:
        pieces = [piece for share in deal(plan, nodes=40) for piece in share.pieces]
        feed = opened(plan, Lender(pieces), limits=FeedLimits(prefetch_bytes=1))
        rows = [take.rows for take in takes(feed)]
        assert sum(rows) == ROWS
        assert not any(n % BATCH for n in rows[:-1])

    def test_closing_ends_the_wait_for_rows_that_others_hold(self, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(KNOBS, "staged_poll_s", LONG_S)
        before = set(threading.enumerate())
        lend = Lender(pieces_of(plan), now=0)
        feed = opened(plan, lend)
        lend.wait_for_calls(1)
        while not feed.take(UPDATES, 0.01).dry:
            pass
        (reading,) = [t for t in threading.enumerate() if t not in before and t.name == "feed"]
        feed.close()
        reading.join(LONG_S / 2)
        assert not reading.is_alive()
        take = feed.take(UPDATES, 0.0)
        assert (take.rows, take.drained) == (0, True)


class TestAside:
    """Rows 40 to 79 and some others have no label."""

    @pytest.fixture
    def holes(self, tmp_path: Path) -> Plan:
        label = [None if 40 <= i < 80 or i % 17 == 3 else float(i) for i in range(160)]
        write_file(tmp_path / "f.parquet", pa.table({"id": np.arange(160), "y": label}), group_rows=20)
        return plan_lake(tmp_path, inputs={"id": "id"}, targets={"y": "y"}, shuffle_rows=20, shuffle=False)

    def test_they_are_covered_and_counted_where_a_whole_block_is_bad_and_in_takes_that_break_off(
        self, holes: Plan
    ) -> None:
        good = [i for i in range(160) if not (40 <= i < 80 or i % 17 == 3)]
        receipts, bad = Receipts(WORKER, 0), list[BadRow]()
        feed = opened(holes, Lender(pieces_of(holes)), receipts, limits=FeedLimits(max_bad_rows=99), bad=bad)
        found: list[int] = []
        while not (take := feed.take(2, 0.05)).drained:
            if take.rows:
                again = first_take(feed, updates=1)
                feed.done(again.number, 0.0)
                found += ids_in(again)
        assert found == good
        assert covered(receipts) == [(0, 160)]
        assert sum(r.rows_aside for r in receipts_of(receipts)) == len(bad) == 160 - len(good)
        assert all(r.rows + r.rows_aside == sum(b - a for a, b in r.intervals) for r in receipts_of(receipts))

    def test_an_end_of_bad_rows_alone_gets_a_receipt(self, holes: Plan) -> None:
        receipts = Receipts(WORKER, 0)
        feed = opened(holes, Lender(pieces_of(holes)[:4]), receipts, limits=FeedLimits(max_bad_rows=99))
        assert sum(take.rows for take in takes(feed)) == 37
        last = receipts_of(receipts)[-1]
        assert covered(receipts) == [(0, 80)]
        assert sum(r.rows_aside for r in receipts_of(receipts)) == 43
        assert last.steps == -(-last.rows // BATCH)

    def test_nothing_but_bad_rows_gets_a_receipt_of_no_update(self, holes: Plan) -> None:
        receipts = Receipts(WORKER, 0)
        feed = opened(holes, Lender(pieces_of(holes)[2:4]), receipts, limits=FeedLimits(max_bad_rows=99))
        assert not list(takes(feed))
        told = receipts_of(receipts)
        assert covered(receipts) == [(40, 80)]
        assert (sum(r.rows_aside for r in told), {(r.steps, r.rows) for r in told}) == (40, {(0, 0)})

    def test_too_many_are_refused(self, holes: Plan) -> None:
        feed = opened(holes, Lender(pieces_of(holes)), limits=FeedLimits(max_bad_rows=20))
        with pytest.raises(BadValueError, match=r"rows fail a check, and data\.max_bad_rows is 20"):
            list(takes(feed))
        feed.close()

    def test_the_first_is_refused_with_file_column_and_row_where_none_may_be(self, holes: Plan) -> None:
        feed = opened(holes, Lender(pieces_of(holes)))
        with pytest.raises(BadValueError, match=r"f\.parquet: column 'y', row 3: null"):
            list(takes(feed))
        feed.close()


class Worker:
    """One incarnation that trains and whose receipts may come late, or never.

    Attributes:
        trained: Receipt -> ids of the rows that it is of.
    """

    def __init__(self, plan: Plan, books: LeaseBooks, node: NodeId, incarnation: int, epoch: int) -> None:
        self.receipts = Receipts(node, incarnation)
        self.trained: dict[int, list[int]] = {}

        def lend(rows: int) -> BlockLease:
            who = Sender(attempt=1, node=node, incarnation=incarnation)
            return books.lease(BlockLeaseRequest(**who, epoch=epoch, rows=rows))

        self.feed = opened(plan, lend, self.receipts, epoch=epoch)

    def execute(self, *, breaks: bool) -> None:
        """Trains a take; or is broken off after the updates."""
        take = self.feed.take(2, 0.001)
        if take.rows and not breaks and self.feed.done(take.number, 0.0) is not None:
            self.trained[len(self.trained) + 1] = ids_in(take)


@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_lost_the_books_and_the_rows_agree_in_every_epoch(plan: Plan, seed: int) -> None:
    draw = random.Random(seed)
    nodes = [NodeId(role=Role.WORKER, index=i) for i in range(3)]
    config = lake_config()
    config = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": BATCH})})
    books = LeaseBooks(plan, Cursor(), config, dict.fromkeys(nodes, "h"))
    chief = NodeId(role=Role.CHIEF, index=0)
    for epoch in range(2):
        first = 10 * epoch
        workers = {node: Worker(plan, books, node, first, epoch) for node in nodes}
        lives, found = dict.fromkeys(nodes, first), list[int]()
        told = dict.fromkeys(nodes, 0)
        while (counts := books.receipts(epoch).counts).fed < ROWS:  # type: ignore[union-attr]
            node = draw.choice(nodes)
            worker = workers[node]
            worker.execute(breaks=draw.random() < 0.2)
            if draw.random() < 0.5:
                receipts = [receipt for receipt in receipts_of(worker.receipts) if receipt.number > told[node]]
                books.fetched(Fetched(attempt=1, node=chief, receipts=tuple(receipts)))
                found += [i for r in receipts for i in worker.trained[r.number]]
                told[node] = max([told[node], *(r.number for r in receipts)])
                if draw.random() < 0.5:
                    worker.receipts.acknowledge(lives[node], told[node])
            if draw.random() < 0.05:
                closed = Closed(node=node, incarnation=lives[node])
                books.fetched(Fetched(attempt=1, node=chief, closed=(closed,)))
                worker.feed.close()
                lives[node] += 1
                told[node] = 0
                workers[node] = Worker(plan, books, node, lives[node], epoch)
        assert sorted(found) == list(range(ROWS))
        assert (counts.trained, counts.aside) == (ROWS, 0)
        books.end(epoch)
        for node, worker in workers.items():
            worker.feed.close()
            books.fetched(Fetched(attempt=1, node=chief, closed=(Closed(node=node, incarnation=first + 9),)))


class TestFailures:
    def test_a_file_that_is_gone_is_told_of_when_its_rows_are_wanted(self, plan: Plan, tmp_path: Path) -> None:
        for path in (tmp_path / "lake").iterdir():
            path.unlink()
        feed = opened(plan, Lender(pieces_of(plan)))
        with pytest.raises(SourceNotFoundError, match="was deleted after the plan was made"):
            feed.take(UPDATES, LONG_S)

    def test_updates_before_a_failure_are_handed_out_and_then_it_is_raised(self, plan: Plan) -> None:
        lender = Lender(pieces_of(plan))

        def lend(rows: int) -> BlockLease:
            if lender.leased:
                raise ControlError("the driver does not answer")
            return lender(rows)

        feed = opened(plan, lend)
        found = 0
        with pytest.raises(ControlError, match="the driver does not answer"):
            while True:
                take = first_take(feed)
                found += take.rows
                feed.done(take.number, 0.0)
        assert lender.leased - lender.leased % BATCH <= found <= lender.leased
