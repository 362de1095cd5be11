"""A column without a value in a file, which pandas writes as of type null: it is nulls of the type of other files."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import array, batches, deal, plan_lake, write_file

from sparktf.driver.plan.parquet_scan import spark_type
from sparktf.errors import BadValueError
from sparktf.feed.arrays.columns import Ragged, Strings
from sparktf.feed.arrays.untyped import arrow_type, merged_type

NOTHING = pa.nulls(2)


def made(folder: Path, columns: Sequence[pa.Array], feature: Any = "c", **data: Any) -> list[Any]:
    """Returns what a column becomes of which each file has a part."""
    for i, column in enumerate(columns):
        write_file(folder / f"{i}.parquet", pa.table({"c": column, "y": [0.0] * len(column)}))
    plan = plan_lake(folder, inputs={"x": feature}, targets={"y": "y"}, shuffle=False, **data)
    (batch,) = batches(plan, deal(plan)[0], rows=1000)
    column = batch["input:x"]
    if isinstance(column, Strings):
        return list(column.to_numpy())
    if isinstance(column, Ragged):
        return list(column.splits.tolist())
    return list(array(batch, "input:x").tolist())


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    ("column", "feature", "fill", "expected", "filled"),
    [
        (pa.array([1, 2]), "c", 7, [1, 2], 7),
        (pa.array(["a", "b"]), "c", "z", [b"a", b"b"], b"z"),
        (pa.array([datetime.date(1970, 1, 2)] * 2), "c", "1970-01-04", [1, 1], 3),
        (pa.array([5, 6]).cast(pa.timestamp("ms", "UTC")), "c", "1970-01-01T00:00:01Z", [5000, 6000], 10**6),
        (pa.array([5, 6]).cast(pa.timestamp("us")), "c", "1970-01-01T00:00:01", [5, 6], 10**6),
        (pa.array([1.5, 2.5], pa.float32()), "c", 0.5, [1.5, 2.5], 0.5),
        (pa.array([1, 2]).cast(pa.decimal128(20, 0)), {"columns": "c", "dtype": "float32"}, 3, [1, 2], 3),
        (pa.array([[1], [2]]), {"columns": "c", "shape": [1]}, 9, [[1], [2]], [9]),
    ],
)  # fmt: skip
def test_it_fits_any_type_wherever_the_file_stands(
    tmp_path: Path, column: pa.Array, feature: Any, fill: Any, expected: list[Any], filled: Any, at: int
) -> None:
    columns = [column, column]
    columns.insert(at, NOTHING)
    found = [expected, expected]
    found.insert(at, [filled] * 2)
    assert made(tmp_path, columns, feature, fill_null={"c": fill}) == [value for part in found for value in part]


def test_lists_of_which_none_has_a_value(tmp_path: Path) -> None:
    empty = pa.array([[], []], pa.list_(pa.null()))
    assert made(tmp_path, [empty, pa.array([[1, 2], [3]])], {"columns": "c", "ragged": True}) == [0, 0, 0, 2, 3]


def test_fields_of_structs(tmp_path: Path) -> None:
    nobody, somebody = pa.array([{"age": None}] * 2), pa.array([{"age": 5}, {"age": 6}])
    for i, columns in enumerate(([nobody, somebody], [NOTHING, somebody], [somebody, NOTHING], [somebody, nobody])):
        found = made(tmp_path / f"{i}", columns, "c.age", fill_null={"c.age": 1})
        assert sorted(found) == [1, 1, 5, 6]


def test_nulls_are_refused_as_any_others(tmp_path: Path) -> None:
    with pytest.raises(
        BadValueError, match=r"1\.parquet: column 'c', row 0: null; set data\.fill_null\.c to the value"
    ):
        made(tmp_path, [pa.array([1, 2]), NOTHING])


def test_a_column_that_no_file_has_a_value_of(tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match="column 'c' is of type null, which cannot become a tensor"):
        made(tmp_path, [NOTHING, NOTHING])


def test_what_is_not_used_is_not_looked_for(tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", pa.table({"c": [1.0], "d": pa.nulls(1), "y": [0.0]}))
    (tmp_path / "b.parquet").write_bytes(b"no parquet")
    with pytest.raises(Exception, match=r"b\.parquet"):  # by the footers of all files, and not before
        plan_lake(tmp_path, inputs={"x": "c"}, targets={"y": "y"})


@pytest.mark.parametrize(
    "spark",
    ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "time", "timestamp", "timestamp_ntz",
     "string", "binary", "decimal(5,2)", "decimal(38,18)", "array<bigint>", "array<timestamp_ntz>"],
)  # fmt: skip
def test_names_of_types_lead_to_these(spark: str) -> None:
    assert spark_type(arrow_type(spark)) == spark


def test_what_is_known_stays() -> None:
    mine = pa.struct([("a", pa.null()), ("b", pa.int8())])
    theirs = pa.struct([("b", pa.int64()), ("a", pa.string())])
    assert merged_type(mine, theirs) == pa.struct([("a", pa.string()), ("b", pa.int8())])
    assert merged_type(mine, None) == mine
    assert merged_type(pa.list_(pa.null()), pa.list_(pa.int8())) == pa.list_(pa.int8())
