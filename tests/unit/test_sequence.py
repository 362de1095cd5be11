"""The arithmetic of plans: orders, shares, cursors. No files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from sparktf.driver.plan.dealing import DealtSlices, deal_slices
from sparktf.feature import Feature, FeedSpec, Kind
from sparktf.sequence import (
    Assignment,
    BlockSlice,
    Cursor,
    Draw,
    EpochOrder,
    Interval,
    Piece,
    Stream,
    batch_shares,
    generator,
    leading,
    merge,
    remaining,
)
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Metrics


def random_blocks(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.integers(1, 50, size=rng.integers(0, 12))


def random_intervals(rng: np.random.Generator, rows: int) -> list[Interval]:
    """What is left of an epoch after some of it was done."""
    cuts = np.sort(rng.integers(0, rows + 1, size=2 * int(rng.integers(0, 4))))
    return remaining(rows, [(int(a), int(b)) for a, b in cuts.reshape(-1, 2) if a < b])


def rows_of(intervals: Iterable[Interval]) -> list[int]:
    return [row for start, stop in intervals for row in range(start, stop)]


def block_rows_of(slices: Iterable[BlockSlice]) -> list[tuple[int, int]]:
    return [(s.block, row) for s in slices for row in range(s.start, s.stop)]


def lists(shares: DealtSlices) -> list[list[BlockSlice]]:
    return [part.tolist() for part in shares]


def assignment_of(slices: Sequence[BlockSlice], epoch: int = 0) -> Assignment:
    pieces = tuple(Piece(block=s.block, start=s.start, stop=s.stop, first_row=s.first_row, splits=()) for s in slices)
    return Assignment(stream=Stream.TRAIN, epoch=epoch, pieces=pieces)


class TestMerge:
    def test_joins_intervals_that_touch(self) -> None:
        assert merge([(5, 7), (0, 2), (2, 5), (9, 10)]) == [(0, 7), (9, 10)]

    def test_refuses_a_row_that_is_covered_twice(self) -> None:
        with pytest.raises(ValueError, match=r"rows \[3, 5\) are covered twice"):
            merge([(0, 5), (3, 8)])

    def test_remaining_is_the_rest_of_the_epoch(self) -> None:
        assert remaining(10, []) == [(0, 10)]
        assert remaining(10, [(0, 3), (5, 6)]) == [(3, 5), (6, 10)]
        assert remaining(10, [(0, 10)]) == []
        assert remaining(0, []) == []


class TestEpochOrder:
    def test_the_planned_order_without_a_seed(self) -> None:
        order = EpochOrder(np.array([3, 1, 2]), epoch=4, seed=None)
        assert order.blocks.tolist() == [0, 1, 2]
        assert order.starts.tolist() == [0, 3, 4, 6]

    def test_another_order_in_each_epoch_and_the_same_again(self) -> None:
        rows = np.ones(100, np.int64)
        orders = [EpochOrder(rows, epoch=epoch, seed=7).blocks.tolist() for epoch in (0, 1, 0)]
        assert orders[0] == orders[2] != orders[1]
        assert sorted(orders[1]) == list(range(100))

    def test_slices_follow_the_order_across_blocks(self) -> None:
        order = EpochOrder(np.array([3, 1, 2]), epoch=0, seed=None)
        assert order.slices([(1, 5)]).tolist() == [
            BlockSlice(0, 1, 3, 1),
            BlockSlice(1, 0, 1, 3),
            BlockSlice(2, 0, 1, 4),
        ]

    def test_no_blocks_have_no_rows(self) -> None:
        order = EpochOrder(np.empty(0, np.int64), epoch=0, seed=3)
        assert order.rows == 0
        assert lists(deal_slices(order, [], 3, rebalance=True)) == [[], [], []]


class TestShare:
    @pytest.mark.parametrize("rebalance", [True, False])
    def test_shares_hold_each_row_of_the_intervals_exactly_once(self, rebalance: bool) -> None:
        rng = np.random.default_rng(1)
        for seed in range(200):
            order = EpochOrder(random_blocks(rng), epoch=seed % 3, seed=seed if seed % 2 else None)
            intervals = random_intervals(rng, order.rows)
            shares = lists(deal_slices(order, intervals, int(rng.integers(1, 9)), rebalance=rebalance))
            dealt = [s for part in shares for s in part]
            assert sorted(block_rows_of(dealt)) == sorted(block_rows_of(order.slices(intervals).tolist()))
            assert sorted(rows_of((s.first_row, s.first_row + s.stop - s.start) for s in dealt)) == rows_of(intervals)

    def test_rebalanced_shares_differ_by_one_row_at_most(self) -> None:
        rng = np.random.default_rng(2)
        for nodes in range(1, 30):
            order = EpochOrder(random_blocks(rng), epoch=0, seed=nodes)
            shares = lists(deal_slices(order, random_intervals(rng, order.rows), nodes, rebalance=True))
            sizes = [sum(s.stop - s.start for s in part) for part in shares]
            assert max(sizes) - min(sizes) <= 1

    def test_without_rebalance_blocks_stay_whole_and_the_least_loaded_node_gets_the_next(self) -> None:
        order = EpochOrder(np.array([8, 3, 3, 3, 5]), epoch=0, seed=None)
        shares = lists(deal_slices(order, [(0, 22)], 2, rebalance=False))
        assert [[s.block for s in part] for part in shares] == [[0, 4], [1, 2, 3]]

    def test_more_nodes_than_rows_leave_some_with_none(self) -> None:
        order = EpochOrder(np.array([2]), epoch=0, seed=None)
        shares = lists(deal_slices(order, [(0, 2)], 5, rebalance=True))
        assert sorted(len(part) for part in shares) == [0, 0, 0, 1, 1]

    def test_a_thousand_nodes_and_a_hundred_thousand_blocks_take_no_quadratic_time(self) -> None:
        order = EpochOrder(np.full(100_000, 3), epoch=0, seed=1)
        intervals = [(i, i + 2) for i in range(0, 300_000, 6)]
        for rebalance in (True, False):
            shares = lists(deal_slices(order, intervals, 1000, rebalance=rebalance))
            assert sum(s.stop - s.start for part in shares for s in part) == 100_000


class TestCursor:
    def test_at_every_boundary_the_rest_is_what_was_not_consumed(self) -> None:
        order = EpochOrder(np.array([4, 7, 1, 9, 5]), epoch=2, seed=5)
        assignment = assignment_of(order.slices([(2, 9), (12, 24)]).tolist())
        whole = rows_of((p.first_row, p.first_row + p.rows) for p in assignment.pieces)
        for taken in range(assignment.rows + 1):
            cursor = Cursor(epoch=2).advance([(0, 2), (9, 12), (24, 26)]).advance(leading(assignment.intervals, taken))
            assert rows_of(remaining(order.rows, cursor.done)) == whole[taken:]
            assert cursor.rows == 7 + taken

    def test_a_resume_on_other_numbers_of_nodes_covers_the_rest_exactly_once(self) -> None:
        rng = np.random.default_rng(3)
        for trial in range(100):
            order = EpochOrder(random_blocks(rng), epoch=1, seed=trial)
            cursor, seen = Cursor(epoch=1), []
            for nodes in (2, 3, 1, 5):
                left = remaining(order.rows, cursor.done)
                for part in lists(deal_slices(order, left, nodes, rebalance=bool(trial % 2))):
                    assignment = assignment_of(part, epoch=1)
                    taken = assignment.rows if nodes == 5 else int(rng.integers(0, assignment.rows + 1))
                    done = leading(assignment.intervals, taken)
                    cursor = cursor.advance(done)
                    seen += rows_of(done)
            assert sorted(seen) == list(range(order.rows))

    def test_a_row_done_twice_is_refused(self) -> None:
        with pytest.raises(ValueError, match="covered twice"):
            Cursor(done=((0, 10),)).advance([(9, 11)])

    def test_more_than_an_assignment_holds_is_refused(self) -> None:
        with pytest.raises(ValueError, match="3 of 2 rows"):
            leading(assignment_of([BlockSlice(0, 0, 2, 0)]).intervals, 3)

    def test_json_and_back(self) -> None:
        cursor = Cursor(epoch=3, done=((0, 4), (7, 9)))
        assert Cursor.model_validate_json(cursor.model_dump_json()) == cursor


class TestBatchShares:
    @pytest.mark.parametrize(("size", "nodes"), [(256, 3), (7, 7), (100, 1), (5, 4)])
    def test_add_up_and_differ_by_one_at_most(self, size: int, nodes: int) -> None:
        shares = batch_shares(size, nodes)
        assert sum(shares) == size
        assert max(shares) - min(shares) <= 1


def test_each_purpose_draws_its_own_numbers() -> None:
    drawn = {int(generator(draw, 0, *key).integers(1 << 62)) for draw in Draw for key in ((0,), (1,), (1, 2))}
    assert len(drawn) == 3 * len(Draw)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_messages_carry_what_is_no_finite_number(value: float) -> None:
    node = NodeId(role=Role.CHIEF, index=0)
    metrics = Metrics(attempt=1, node=node, stream=Stream.VALIDATION, epoch=0, step=1, rows=1, values={"loss": value})
    feature = Feature(kind=Kind.INPUT, name="x", columns=("c",), dtype="float32", shape=(3,), pad=value)
    spec = FeedSpec(features=(feature,), fill_null={"c": value})
    for message in (metrics, spec):
        again = type(message).model_validate_json(message.model_dump_json())
        np.testing.assert_equal(again.model_dump(), message.model_dump())
