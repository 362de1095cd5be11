"""Which values of a column the gate's slices are: each with all of its rows, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from sparktf.feature import Feature, Kind
from sparktf.trainer.model.slices import SliceCodes, SliceColumn

SHOP = SliceColumn("shop", Feature(kind=Kind.INPUT, name="shop", columns=("shop",), dtype="int64"), None)


def counted(codes: SliceCodes, chunks: Sequence[Mapping[int, int]]) -> Counter[str]:
    """Returns the rows that count, where each chunk has so many rows of each value."""
    rows: Counter[str] = Counter()
    for chunk in chunks:
        for code in codes.of({SHOP.feature.key: np.fromiter(chunk, np.int64)}):
            if codes.takes(int(code)):
                label = codes.labels[code]
                rows[label] += chunk[int(label.removeprefix("shop="))]
    return rows


def test_a_value_that_is_rare_in_one_chunk_is_counted_in_each() -> None:
    common = {number: 1_000 - number for number in range(100)}
    chunks: list[Mapping[int, int]] = [{7: 5, 500: 3}, {**common, 500: 1}, {500: 2}]
    codes = SliceCodes(SHOP, 100)
    found = counted(codes, chunks)
    assert found["shop=500"] == 6
    assert found["shop=7"] == 5 + common[7]


def test_of_a_value_that_came_too_late_no_row_counts_and_that_is_known() -> None:
    codes = SliceCodes(SHOP, 2)
    assert counted(codes, [{1: 9, 2: 8, 3: 7}, {3: 100, 1: 1}]) == {"shop=1": 10, "shop=2": 8}
    assert [codes.lacks(f"shop={number}") for number in (1, 2, 3, 4)] == [False, False, True, False]
    assert not codes.lacks("country=3")
