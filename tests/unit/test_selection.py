"""What footers say about a filter agrees with the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparktf.feed.formats.selection import decided_rows, selected_rows
from sparktf.predicate import Condition, Op

GROUPS = ([3], [1, 2, 3], [3, 4, 5], [None], [None, 3], [2, None, 4], [-7, -7], [5, 6])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> pq.ParquetFile:
    """Every group of values as a row group."""
    path = tmp_path_factory.mktemp("files") / "f.parquet"
    with pq.ParquetWriter(path, pa.schema({"x": pa.int64()})) as writer:
        for values in GROUPS:
            writer.write_table(pa.table({"x": pa.array(values, pa.int64())}))
    return pq.ParquetFile(path)


def comparisons() -> list[Condition]:
    single = [op for op in Op if op not in (Op.IN, Op.NULL, Op.NOT_NULL)]
    found = [Condition(column="x", op=op, values=(value,)) for op in single for value in range(-8, 8)]
    found += [Condition(column="x", op=Op.IN, values=values) for values in ((), (3,), (1, 5), (3, 4, 5))]
    return [*found, Condition(column="x", op=Op.NULL), Condition(column="x", op=Op.NOT_NULL)]


def test_footers_decide_only_what_is_so(file: pq.ParquetFile) -> None:
    decided = 0
    for comparison, group in itertools.product(comparisons(), range(len(GROUPS))):
        rows = len(selected_rows(file.read_row_group(group), [comparison]))
        said = decided_rows(file.metadata.row_group(group), {"x": 0}, [comparison])
        assert said in (rows, None), (comparison, GROUPS[group])
        decided += said is not None
        # Of one value, everything is known.
        assert said == rows or len(GROUPS[group]) > 1, (comparison, GROUPS[group])
    assert decided > len(comparisons()) * len(GROUPS) // 2


def test_of_several_comparisons_one_that_fails_decides(file: pq.ParquetFile) -> None:
    passes, fails, unknown = (Condition(column="x", op=Op.GT, values=(value,)) for value in (0, 3, 2))
    group = file.metadata.row_group(1)
    assert decided_rows(group, {"x": 0}, [passes]) == 3
    assert decided_rows(group, {"x": 0}, [passes, unknown]) is None
    assert decided_rows(group, {"x": 0}, [unknown, fails]) == 0
    assert decided_rows(group, {}, [fails]) is None


def test_rows_that_are_null_pass_only_where_null_is_asked_for(file: pq.ParquetFile) -> None:
    table = file.read_row_group(5)
    found = {str(c.op): selected_rows(table, [c]).tolist() for c in comparisons() if c.values in ((), (3,))}
    assert found["is null"] == [1]
    assert [op for op, rows in found.items() if 1 in rows] == ["is null"]
    assert np.array_equal(found["!="], [0, 2])


def test_times_that_microseconds_cannot_count_are_not_compared() -> None:
    table = pa.table({"x": pa.array([1, 2**62], pa.timestamp("ms"))})
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        selected_rows(table, [Condition(column="x", op=Op.GT, values=(0,))])
    assert selected_rows(table[:1], [Condition(column="x", op=Op.EQ, values=(1000,))]).tolist() == [0]
