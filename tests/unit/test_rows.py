"""Rows of an RDD as record batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from sparktf.errors import BadValueError
from sparktf.executor.rows import to_batches

NAMES = ("id", "name", "x")
SCHEMA = pa.schema([("x", pa.float32()), ("id", pa.int64())])
MANY = 10_000


def table(rows: Iterable[Any]) -> pa.Table:
    return pa.Table.from_batches(to_batches(rows, SCHEMA, NAMES, 3), SCHEMA)


@pytest.mark.parametrize(
    "row",
    [
        lambda i: {"id": i, "name": "n", "x": i / 2, "more": None},
        lambda i: (i, "n", i / 2),
        lambda i: [i, "n", i / 2],
        lambda i: Row(x=i / 2, name="n", id=i),
    ],
    ids=["dicts", "tuples", "lists", "Rows, whose fields stand in another order"],
)
def test_all_rows_come_with_the_fields_that_are_asked_for(row: Any) -> None:
    found = table(row(i) for i in range(MANY))
    assert found.equals(pa.table({"x": pa.array([i / 2 for i in range(MANY)], pa.float32()), "id": range(MANY)}))


def test_what_a_dict_lacks_is_null() -> None:
    assert table([{"id": 1, "x": 1.0}, {"id": 2}]).column("x").to_pylist() == [1.0, None]


def test_no_rows_make_no_batches() -> None:
    assert list(to_batches([], SCHEMA, NAMES, 3)) == []


def good_but(number: int, bad: Any) -> list[Any]:
    return [(i, "n", 0.5) if i != number else bad for i in range(6_000)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (good_but(5_000, (5_000, "n", "much")), r"partition 3 of the RDD, row 5000: column 'x': 'much' is no value of"),
        (good_but(4_097, (1, "n")), r"partition 3 of the RDD, row 4097: a tuple of another shape"),
        ([{"id": 1, "x": 0.5}, (2, "n", 0.5)], r"row 1: a tuple of another shape than the rows before"),
        ([1, 2], r"partition 3 of the RDD: rows are of type int, not dict, Row or tuple"),
        ([Row(id=1)], r"partition 3 of the RDD: its rows have no field 'x'"),
        ([(2**70, "n", 0.5)], r"row 0: column 'id': 1180591620717411303424 is no value of type int64"),
    ],
    ids=["a wrong type", "too short", "another kind", "no row at all", "a field is missing", "too large"],
)
def test_a_row_that_does_not_fit_is_refused_with_its_place(rows: list[Any], says: str) -> None:
    with pytest.raises(BadValueError, match=says):
        table(rows)
