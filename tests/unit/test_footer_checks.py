"""What footers say of the columns is what their rows say, and nothing is claimed that they do not say."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import id_table, lake_config, no_filter, write_file, write_lake

from sparktf.config.checks import ChecksConfig
from sparktf.driver.plan.planner import plan_source
from sparktf.nightly.data_checks import Baseline
from sparktf.preview import footer_checks
from sparktf.preview.footer_checks import Footers, judge_footers, read_footers
from sparktf.preview.forecast import ChecksForecast
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.file_systems import open_storage
from sparktf.storage.local import LocalStorage


def footers(lake: Path, **data: Any) -> Footers:
    config = lake_config(lake, **data)
    return read_footers(LocalStorage(), config.data, plan_source(config, open_storage, no_filter))


def typed(folder: Path) -> Footers:
    days = [dt.date(2026, 11, 1), None, dt.date(1969, 12, 31), dt.date(2026, 11, 3)]
    times = [dt.datetime(2026, 11, 1, 12, 0, 0, 7), dt.datetime(2026, 1, 1), None, None]
    table = pa.table(
        {
            "id": pa.array([3, None, -5, 8], pa.int16()),
            "day": pa.array(days, pa.date32()),
            "at": pa.array(times, pa.timestamp("us")),
            "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None, None], pa.decimal128(9, 2)),
            "text": ["b", None, "a", "c"],
            "flag": [True, False, None, True],
            "list": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], pa.list_(pa.float32(), 2)),
            "void": pa.array([None] * 4, pa.float64()),
            "label": [0, 1, 0, 1],
        }
    )
    write_file(folder / "part.parquet", table, group_rows=2)
    inputs: dict[str, Any] = {name: name for name in ("id", "day", "at", "text", "flag", "list", "void")}
    return footers(folder, inputs={**inputs, "price": {"columns": "price", "dtype": "float32"}})


def test_each_type_is_counted_as_statistics_have_it(tmp_path: Path) -> None:
    found = typed(tmp_path)
    columns = found.statistics.columns
    assert {name: column.type for name, column in columns.items()} == {
        "id": "smallint",
        "day": "date",
        "at": "timestamp",
        "price": "decimal(9,2)",
        "text": "string",
        "flag": "boolean",
        "list": "array<float>",
        "void": "double",
        "label": "bigint",
    }
    assert {name: columns[name].nulls for name in sorted(found.nulls)} == {
        "at": 2, "day": 1, "flag": 1, "id": 1, "label": 0, "price": 2, "text": 1, "void": 4,
    }  # fmt: skip
    ends = {name: (column.numbers.min, column.numbers.max) for name, column in columns.items() if column.numbers}
    days = (dt.date(2026, 11, 3) - dt.date(1970, 1, 1)).days
    first, last = (dt.datetime(2026, m, 1, 12 * (m > 1), 0, 0, 7 * (m > 1), dt.UTC) for m in (1, 11))
    micro = [int(time.timestamp()) * 10**6 + time.microsecond for time in (first, last)]
    assert ends == {
        "id": (-5, 8), "day": (-1, days), "at": tuple(micro), "price": (-2.25, 1.5), "label": (0, 1),
    }  # fmt: skip
    assert found.ends == set(ends)


@settings(max_examples=25)
@given(
    values=st.lists(st.none() | st.floats(width=32) | st.just(math.inf), min_size=1, max_size=40),
    group_rows=st.integers(1, 9),
)
def test_what_is_said_of_numbers_is_true_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, values: list[float | None], group_rows: int
) -> None:
    lake = tmp_path_factory.mktemp("lake")
    table = pa.table({"a": pa.array(values, pa.float32()), "label": np.zeros(len(values), np.int32)})
    write_file(lake / "part.parquet", table, group_rows=group_rows)
    found = footers(lake, inputs={"a": "a"}, targets={"y": "label"})
    column = found.statistics.columns["a"]
    assert column.nulls == sum(value is None for value in values)
    if column.numbers is not None:
        finite = [value for value in values if value is not None and math.isfinite(value)]
        assert (column.numbers.min, column.numbers.max) == (min(finite), max(finite))
        assert not any(value is not None and math.isinf(value) for value in values)


def test_a_file_without_statistics_leaves_its_columns_unknown(tmp_path: Path) -> None:
    write_lake(tmp_path, [20, 20])
    pq.write_table(id_table(40, 20), tmp_path / "part-09.parquet", write_statistics=["id", "label"])
    found = footers(tmp_path)
    assert (found.nulls, found.ends) == (frozenset({"id", "label"}), frozenset({"id", "label"}))
    assert (found.statistics.rows, set(found.statistics.columns)) == (60, {"id", "a", "b", "label"})


def test_values_that_python_does_not_have_are_unknown_and_their_nulls_are_counted(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": ["a", "zzzz", None],
            "day": pa.array([1, 2**31 - 5, None], pa.int32()).cast(pa.date32()),
            "at": pa.array([1, 2**62, None], pa.int64()).cast(pa.timestamp("us")),
            "label": [0, 1, 0],
        }
    )
    file = write_file(tmp_path / "part.parquet", table)
    file.write_bytes(file.read_bytes().replace(b"zzzz", b"z\xe9zz"))
    found = footers(tmp_path, inputs={name: name for name in ("text", "day", "at")})
    assert {name: column.nulls for name, column in found.statistics.columns.items()} == {
        "text": 1, "day": 1, "at": 1, "label": 0,
    }  # fmt: skip
    assert (found.nulls, found.ends) == (frozenset({"text", "day", "at", "label"}), frozenset({"label"}))


def test_rows_that_are_held_out_count_and_those_of_another_source_do_not(tmp_path: Path) -> None:
    lake, other = write_lake(tmp_path / "lake", [40]), write_lake(tmp_path / "other", [400])
    assert footers(lake, validation={"fraction": 0.5}).statistics.rows == 40
    beside = footers(lake, validation={"path": str(other)})
    assert beside.statistics.rows == 40
    assert beside.statistics.columns["id"].numbers == footers(lake).statistics.columns["id"].numbers


def test_partition_columns_have_the_nulls_of_their_folders(tmp_path: Path) -> None:
    for day in ("1", "__HIVE_DEFAULT_PARTITION__"):
        write_file(tmp_path / f"day={day}/part.parquet", id_table(0, 30))
    found = footers(tmp_path, inputs={"day": "day", "id": "id"}, fill_null={"day": 0})
    assert found.statistics.columns["day"].nulls == 30
    assert "day" in found.nulls


def judged(lake: Path, checks: dict[str, Any], then: TableStatistics | None = None) -> ChecksForecast:
    baseline = None if then is None else Baseline("2026-11-19", then)
    return judge_footers(ChecksConfig.model_validate(checks), footers(lake), baseline)


def test_bounds_are_judged_by_the_words_of_the_run_and_what_takes_rows_is_left(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, [100])
    bounds = {"rows": [200, 300], "columns": {"a": {"min": 0, "max": 197, "mean": [0, 1]}, "id": {"null_share": 0}}}
    found = judged(lake, {"refuse": bounds, "warn": {"columns": {"label": {"values": [0, 1]}}, "drift": {"js": 0.1}}})
    assert [finding.text for finding in found.findings] == [
        "rows are 100, below 200 (data.checks.refuse.rows)",
        "column a: the greatest value is 198, above 197 (data.checks.refuse.columns.a.max)",
    ]
    assert all(finding.certain and finding.level == "refuse" for finding in found.findings)
    keys = ("rows", "columns.a.min", "columns.a.max", "columns.id.null_share")
    assert found.judged == tuple(f"refuse.{key}" for key in keys)
    assert found.left == ("refuse.columns.a.mean", "warn.columns.label.values", "warn.drift.js")


def test_drift_of_rows_columns_and_nulls_is_measured_against_the_run_before(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", [100])
    now = footers(lake).statistics
    columns = {name: column for name, column in now.columns.items() if name != "b"}
    columns["a"] = columns["a"].model_copy(update={"nulls": 30})
    columns["id"] = columns["id"].model_copy(update={"type": "int"})
    then = now.model_copy(update={"columns": columns, "rows": 300, "rows_read": 300})
    drift = {"row_ratio": [0.5, 2], "columns": True, "null_share": 0.05, "linf": 0.1}
    found = judged(lake, {"warn": {"drift": drift}}, then)
    assert [finding.text.partition(" (data")[0] for finding in found.findings] == [
        "100 rows, 300 in run 2026-11-19: the ratio is 0.3333333333, below 0.5",
        "column id: it is bigint, and was int in run 2026-11-19",
        "column b: it has come, and was not in run 2026-11-19",
        "column a: 0.000% of the rows are null, 10.000% in run 2026-11-19: that is more than 5.000% apart",
    ]
    assert (found.baseline, found.left) == ("2026-11-19", ("warn.drift.linf",))
    alone = judged(lake, {"warn": {"drift": drift}})
    assert (alone.findings, alone.judged) == ((), ())


def test_of_a_sample_only_rows_and_columns_are_certain(tmp_path: Path) -> None:
    bounds = {"rows": [200, 300], "columns": {"a": {"max": 197}}}
    found = judged(write_lake(tmp_path, [100]), {"sample": 0.1, "refuse": bounds})
    assert [finding.certain for finding in found.findings] == [True, False]


def test_of_too_many_chunks_rows_and_columns_alone_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footer_checks, "MOST_CHUNKS", 27)
    lake = write_lake(tmp_path, [112])  # 7 row groups of 4 columns
    found = judged(lake, {"refuse": {"rows": [113, 200], "columns": {"a": {"max": 1}}}})
    assert [finding.text for finding in found.findings] == ["rows are 112, below 113 (data.checks.refuse.rows)"]
    assert (found.left, found.columns, found.used_columns) == (("refuse.columns.a.max",), 0, 4)
