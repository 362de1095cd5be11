"""What counts as trained of an epoch that Spark feeds, where workers train as they go: each row once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.driver.attempt.disciplines import Asynchronous, Lockstep
from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.attempt.rows.leases import Lessee
from sparktf.driver.attempt.rows.staged_leases import StagedLeases
from sparktf.errors import RefusedError, RowAccountingError
from sparktf.feed.channel.held import SPLIT_SPAN
from sparktf.sequence import Cursor, Interval, Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.leasing import BlockLeaseRequest, Fetched, Receipt

TRAIN = Stream.TRAIN
CHIEF, PS = (NodeId(role=role, index=0) for role in (Role.CHIEF, Role.PS))
ONE, TWO = (NodeId(role=Role.WORKER, index=i) for i in range(2))


def of(split: int, start: int, stop: int) -> Interval:
    """Returns rows of a split as the epoch's sequence numbers them."""
    return split * SPLIT_SPAN + start, split * SPLIT_SPAN + stop


def receipt(number: int, *intervals: Interval, node: NodeId = ONE, epoch: int = 0) -> Receipt:
    rows = sum(stop - start for start, stop in intervals)
    return Receipt(node=node, incarnation=0, number=number, epoch=epoch, steps=1, intervals=intervals, rows=rows)


class TestRows:
    def test_they_count_once_whoever_trains_them(self) -> None:
        leases = StagedLeases(())
        leases.add(3, 10)
        leases.add(0, 0)
        leases.add(3, 10)
        assert leases.left == 10
        assert leases.fetched(Lessee(ONE, 0), [of(3, 4, 10)]) == 6
        assert leases.fetched(Lessee(TWO, 0), [of(3, 0, 4)]) == 4
        assert leases.left == 0

    @pytest.mark.parametrize("again", [of(3, 0, 1), of(3, 3, 6), of(3, 9, 11), of(2, 0, 1), of(4, 0, 1)])
    def test_what_is_trained_already_or_was_never_fed_is_an_error_that_names_it(self, again: Interval) -> None:
        leases = StagedLeases(())
        leases.add(3, 10)
        leases.fetched(Lessee(ONE, 0), [of(3, 0, 4)])
        with pytest.raises(RowAccountingError, match=rf"worker 1 has trained rows .* of partition {again[0] >> 40}, "):
            leases.fetched(Lessee(TWO, 0), [again])
        assert leases.left == 6

    def test_what_a_checkpoint_knew_as_trained_is_not_left(self) -> None:
        leases = StagedLeases([of(1, 2, 5), of(2, 0, 9)])
        leases.add(1, 10)
        leases.add(2, 9)
        assert leases.left == 7
        assert leases.fetched(Lessee(ONE, 0), [of(1, 0, 2), of(1, 5, 10)]) == 7


@pytest.fixture
def books(tmp_path: Path) -> LeaseBooks:
    """Books of two workers, from row 5 of partition 0 in epoch 1 on."""
    lake = write_lake(tmp_path / "lake", [3])
    plan = dataclasses.replace(plan_lake(lake), staged=(TRAIN,))
    return LeaseBooks(plan, Cursor(epoch=1, done=(of(0, 0, 5),)), lake_config(lake), {ONE: "h", TWO: "h"})


def tell(books: LeaseBooks, *receipts: Receipt) -> None:
    books.fetched(Fetched(attempt=1, node=CHIEF, receipts=receipts))


def test_the_books_count_receipts_of_sealed_partitions_epoch_by_epoch(books: LeaseBooks) -> None:
    books.sealed(1, 0, 8)
    books.sealed(1, 7, 4)
    assert books.left(1) == 7
    tell(books, receipt(1, of(0, 5, 8), of(7, 0, 1), epoch=1))
    tell(books, receipt(1, of(7, 1, 4), node=TWO, epoch=1))
    assert books.left(1) == 0
    counted = books.receipts(1)
    assert counted is not None
    assert (counted.counts.fed, counted.counts.trained, counted.replayed) == (7, 7, 0)
    books.kept(2, {0: 8, 7: 4})
    assert books.left(2) == 12


def test_rows_of_a_partition_that_is_not_sealed_do_not_count(books: LeaseBooks) -> None:
    with pytest.raises(RowAccountingError, match="which Spark has not fed"):
        tell(books, receipt(1, of(3, 0, 5), epoch=1))


def test_nothing_is_left_of_an_epoch_that_is_over(books: LeaseBooks) -> None:
    books.sealed(1, 0, 8)
    books.end(1)
    assert books.left(1) == 0


def test_no_blocks_are_leased_where_spark_feeds_the_rows(books: LeaseBooks) -> None:
    with pytest.raises(RefusedError, match="worker 0 does not lease rows"):
        books.lease(BlockLeaseRequest(attempt=1, node=ONE, epoch=1, rows=9))


def test_workers_take_what_is_trained_and_the_coordinator_what_is_evaluated() -> None:
    nodes = (CHIEF, PS, ONE, TWO)
    assert Asynchronous().fed(TRAIN, nodes) == (ONE, TWO)
    assert Asynchronous().fed(Stream.VALIDATION, nodes) == (CHIEF,)
    assert Lockstep().fed(Stream.VALIDATION, (ONE, TWO)) == (ONE, TWO)
