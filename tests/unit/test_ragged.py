"""Lists of any length, from a file to batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import batches, deal, lake_config, no_filter, plan_lake, write_file

from sparktf.driver.plan.planner import plan_source
from sparktf.errors import BadValueError, ConfigError
from sparktf.feed.arrays.columns import Columns, Ragged, Strings
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

ROWS = 200


def numbers_of(i: int) -> list[int]:
    """The list of a row: none in every fifth, else some that tell its number."""
    return list(range(i * 10, i * 10 + i % 5))


def words_of(i: int) -> list[str]:
    return [f"w{(i + j) % 7}" for j in range(i % 3)]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "numbers": pa.array([numbers_of(i) for i in range(ROWS)], pa.list_(pa.int64())),
            "words": [words_of(i) for i in range(ROWS)],
            "y": np.zeros(ROWS, np.float32),
        }
    )
    write_file(tmp_path / "lake/f.parquet", table, group_rows=16)
    return tmp_path / "lake"


def inputs(**settings: Any) -> dict[str, Any]:
    return {
        "id": "id",
        "numbers": {"columns": "numbers", "ragged": True, **settings},
        "words": {"columns": "words", "ragged": True},
    }


def lists(batch: Columns, key: str) -> list[list[Any]]:
    """Returns a ragged tensor as lists; text as str."""
    column = batch[f"input:{key}"]
    assert isinstance(column, Ragged)
    values = column.values
    flat = [v.decode() for v in values.to_numpy()] if isinstance(values, Strings) else values.tolist()
    return [flat[start:stop] for start, stop in zip(column.splits[:-1], column.splits[1:], strict=True)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 64, 1000])
def test_every_row_keeps_its_lists(lake: Path, rows: int, shuffle: bool) -> None:
    settings: dict[str, Any] = {"targets": {"y": "y"}, "shuffle": shuffle, "shuffle_rows": 50}
    plan = plan_lake(lake, inputs=inputs(), **settings)
    seen: list[int] = []
    for batch in batches(plan, deal(plan)[0], rows=rows):
        ids = [int(i) for i in batch["input:id"]]  # type: ignore[union-attr]
        assert lists(batch, "numbers") == [numbers_of(i) for i in ids]
        assert lists(batch, "words") == [words_of(i) for i in ids]
        seen += ids
    assert sorted(seen) == list(range(ROWS))
    assert (seen == sorted(seen)) is not shuffle


def test_rows_held_out_take_their_lists_along(lake: Path) -> None:
    plan = plan_lake(lake, inputs=inputs(), targets={"y": "y"}, validation={"fraction": 0.25})
    for stream in Stream:
        (batch,) = batches(plan, deal(plan, stream)[0], rows=1000)
        ids = [int(i) for i in batch["input:id"]]  # type: ignore[union-attr]
        assert lists(batch, "numbers") == [numbers_of(i) for i in ids]


@pytest.mark.parametrize(
    ("values", "settings", "data", "says"),
    [
        ([[1], [2, None]], {}, {}, r"column 'c', row 1: a null within the list"),
        ([[1], None], {}, {}, r"column 'c', row 1: null; set data\.fill_null\.c"),
        ([[1, 2], [], [3, 300]], {"dtype": "int8"}, {}, r"column 'c', row 2: 300 does not fit dtype int8"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_their_row(
    tmp_path: Path, values: list[Any], settings: dict[str, Any], data: dict[str, Any], says: str
) -> None:
    rows = len(values)
    column = pa.array(values, pa.list_(pa.int32()))
    write_file(tmp_path / "lake/f.parquet", pa.table({"c": column, "y": [0.0] * rows}))
    feature = {"columns": "c", "ragged": True, **settings}
    plan = plan_lake(tmp_path / "lake", inputs={"c": feature}, targets={"y": "y"}, **data)
    with pytest.raises(BadValueError, match=says):
        batches(plan, deal(plan)[0])


def test_nulls_are_filled_and_a_null_list_is_empty(tmp_path: Path) -> None:
    column = pa.array([[1, None], None, [3]], pa.list_(pa.int32()))
    write_file(tmp_path / "lake/f.parquet", pa.table({"c": column, "y": [0.0] * 3}))
    feature = {"columns": "c", "ragged": True, "dtype": "float32"}
    plan = plan_lake(tmp_path / "lake", inputs={"c": feature}, targets={"y": "y"}, fill_null={"c": -1}, shuffle=False)
    (batch,) = batches(plan, deal(plan)[0])
    assert lists(batch, "c") == [[1.0, -1.0], [], [3.0]]
    assert batch["input:c"].values.dtype == np.float32  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"inputs": inputs(shape=[3])}, r"data\.inputs\.numbers\.shape: a ragged tensor has"),
        ({"inputs": inputs(pad=0)}, r"data\.inputs\.numbers\.pad: a ragged tensor has"),
        ({"inputs": inputs(truncate=True)}, r"data\.inputs\.numbers\.truncate: a ragged"),
        ({"inputs": inputs(mask="there")}, r"data\.inputs\.numbers\.mask: a ragged tensor has"),
        (
            {"inputs": {"id": {"columns": "id", "ragged": True}}},
            r"id\.ragged: column 'id' is of type bigint, not a list",
        ),
        ({"targets": {"y": {"columns": "numbers", "ragged": True}}}, r"data\.targets\.y\.ragged: only inputs"),
        ({"inputs": {"n": "numbers"}}, r"data\.inputs\.n: .* may differ in length; add .* or `ragged: true`"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(lake: Path, data: dict[str, Any], says: str) -> None:
    config = lake_config(lake, **{"inputs": inputs(), "targets": {"y": "y"}, **data})
    with pytest.raises(ConfigError, match=says):
        plan_source(config, open_storage, no_filter)
