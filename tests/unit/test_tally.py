"""What the coordinator knows of its workers: each receipt counts once."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from pydantic import TypeAdapter

from sparktf.errors import LifecycleError
from sparktf.sequence import Interval
from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.tally import LastReceipt, Tally, loss_of
from sparktf.wire.leasing import Receipt

ONE, OTHER = (NodeId(role=Role.WORKER, index=i) for i in range(2))


def receipt(number: int, *intervals: Interval, node: NodeId = ONE, **fields: Any) -> Receipt:
    rows = sum(stop - start for start, stop in intervals) - fields.get("rows_aside", 0)
    values = {"incarnation": 0, "epoch": 0, "steps": 1, "loss": 0.5 * rows, **fields}
    return Receipt(node=node, number=number, intervals=intervals, rows=rows, **values)


def answer(*receipts: Receipt) -> bytes:
    return zlib.compress(TypeAdapter(list[Receipt]).dump_json(list(receipts)))


def numbers(receipts: list[Receipt]) -> list[int]:
    return [receipt.number for receipt in receipts]


def test_a_receipt_that_is_told_again_counts_once() -> None:
    tally = Tally([ONE, OTHER])
    first, second = receipt(1, (0, 10)), receipt(2, (30, 40), rows_aside=2)
    assert numbers(tally.take(answer(first, second))) == [1, 2]
    assert numbers(tally.take(answer(first))) == []
    assert numbers(tally.take(answer(second, receipt(3, (10, 20))))) == [3]
    of_epoch = tally.of(0)
    assert (of_epoch.steps, of_epoch.rows, of_epoch.rows_aside, of_epoch.covered) == (3, 28, 2, 30)
    assert of_epoch.intervals == [(0, 20), (30, 40)]
    assert tally.acknowledged == [LastReceipt(0, 3), LastReceipt(0, 0)]


def test_workers_count_for_themselves() -> None:
    tally = Tally([ONE, OTHER])
    tally.take(answer(receipt(1, (0, 10))))
    assert numbers(tally.take(answer(receipt(1, (10, 20), node=OTHER)))) == [1]


def test_a_receipt_that_never_came_is_missed() -> None:
    tally = Tally([ONE])
    with pytest.raises(LifecycleError, match="worker 0 sent receipt 2, but 1 is missing"):
        tally.take(answer(receipt(2, (0, 10))))


def test_nothing_counts_of_an_incarnation_that_is_lost_once_its_successor_is_known() -> None:
    tally = Tally([ONE, OTHER])
    tally.take(answer(receipt(1, (0, 10))))
    assert tally.succeed({ONE: 0, OTHER: 0}) == []
    assert tally.succeed({ONE: 2, OTHER: 0}) == [(ONE, 0), (ONE, 1)]  # the one between has told nothing
    assert tally.succeed({ONE: 2, OTHER: 0}) == []
    assert tally.take(answer(receipt(2, (10, 20)))) == []
    assert tally.acknowledged == [LastReceipt(2, 0), LastReceipt(0, 0)]
    assert numbers(tally.take(answer(receipt(1, (10, 20), incarnation=2)))) == [1]
    assert tally.of(0).intervals == [(0, 20)]


def test_what_rows_add_to_metrics_counts_once_with_them() -> None:
    tally = Tally([ONE, OTHER])
    assert tally.of(0).metrics is None
    first = receipt(1, (0, 10), metrics=(6.0, 10.0))
    tally.take(answer(first))
    tally.take(answer(first, receipt(2, (10, 14), metrics=(1.0, 4.0))))
    tally.take(answer(receipt(1, (14, 16), node=OTHER, metrics=(0.0, 2.0))))
    tally.succeed({ONE: 1, OTHER: 0})
    tally.take(answer(receipt(3, (16, 20), metrics=(4.0, 4.0))))
    tally.take(answer(receipt(1, (0, 2), node=ONE, incarnation=1, epoch=1, metrics=(2.0, 2.0))))
    sums = (tally.of(0).metrics, tally.of(1).metrics)
    assert [None if added is None else added.tolist() for added in sums] == [[7.0, 16.0], [2.0, 2.0]]


def test_epochs_have_their_own_rows() -> None:
    tally = Tally([ONE])
    tally.take(answer(receipt(1, (0, 10)), receipt(2, (0, 4), epoch=1)))
    assert (tally.of(0).covered, tally.of(1).covered) == (10, 4)
    tally.forget_before(1)
    assert (tally.of(0).covered, tally.of(1).covered) == (0, 4)


def test_the_loss_is_a_mean_over_rows() -> None:
    assert loss_of([receipt(1, (0, 30), loss=30.0), receipt(2, (30, 40), loss=50.0)]) == 2.0
    assert loss_of([receipt(1, (0, 3), rows_aside=3)]) is None
    assert loss_of([]) is None
