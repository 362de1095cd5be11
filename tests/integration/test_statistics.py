"""Statistics of columns as Spark measures them, and runs whose data is checked by them: on real Spark."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.rows import job, write_rows
from lakes import lake_config, write_file
from pyspark.sql import SparkSession

from sparktf.driver.plan.locality import nowhere
from sparktf.driver.source.choice import choose_feed
from sparktf.driver.source.footer_types import footer_types
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.statistics_of import statistics_of
from sparktf.errors import CorruptFileError, DataError, Verdict
from sparktf.statistics.column_statistics import RANKS, Spread, TableStatistics
from sparktf.storage.file_systems import FileSystems

ROWS = 20_000
FIRST, SECOND, THIRD = "2026-11-01", "2026-11-02", "2026-11-03"
RANK = 0.01
DISTINCT = 0.15
"""How far the rank of a quantile, and a number of distinct values, may be from the true one."""


def measured(spark: SparkSession, data: object = None, **section: Any) -> TableStatistics:
    """Returns the statistics of a data section, as a run plans and measures it."""
    config = lake_config(**section)
    origin = Origin(spark, config, data)
    file_systems = FileSystems()
    plan = choose_feed(spark, config, origin, file_systems, nowhere, lambda line: None)
    return statistics_of(spark, origin, config, plan, file_systems, cores=2)


def check_spread(found: Spread | None, values: npt.NDArray[Any]) -> None:
    """Compares what was measured with numpy's figures."""
    assert found is not None
    assert (found.count, found.min, found.max) == (len(values), values.min(), values.max())
    assert (found.mean, found.deviation) == pytest.approx((values.mean(), values.std()))
    for rank, quantile in zip(RANKS, found.quantiles, strict=True):
        assert (values < quantile).mean() - RANK <= rank <= (values <= quantile).mean() + RANK


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    ids = np.arange(ROWS)
    a = np.where(ids % 10 == 0, np.nan, rng.normal(size=ROWS))
    a[1] = -np.inf
    days = dt.date(2026, 1, 1).toordinal()
    lists = [None if i == 5 else [] if i == 6 else [np.nan] if i == 7 else [float(i)] * (i % 4) for i in range(ROWS)]
    return pa.table(
        {
            "id": ids,
            "a": a,
            "text": [None if i % 5 == 0 else f"v{int(i**0.5)}" for i in range(ROWS)],
            "yes": ids % 4 == 0,
            "day": [dt.date.fromordinal(days + i % 30) for i in range(ROWS)],
            "time": pa.array(ids * 1_000_000, pa.timestamp("us")),
            "words": pa.array(lists, pa.list_(pa.float32())),
            "image": [b"x" * (i % 3) for i in range(ROWS)],
            "user": [{"age": i % 7} for i in range(ROWS)],
            "label": (ids % 3).astype(np.float64),
        }
    )


NAMES = ("id", "a", "text", "yes", "day", "time", "image", "user.age")
INPUTS = {name.replace(".", "_"): name for name in NAMES} | {"words": {"columns": "words", "ragged": True}}


@pytest.fixture(scope="module")
def lake(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("statistics")
    for i in range(4):
        write_file(folder / f"part-{i}.parquet", table.slice(i * ROWS // 4, ROWS // 4), group_rows=1000)
    return folder


def test_statistics_are_those_of_the_rows(spark: SparkSession, table: pa.Table, lake: Path) -> None:
    found = measured(spark, path=lake, inputs=INPUTS, targets={"y": "label"}, checks={})
    assert (found.rows, found.rows_read, found.labels) == (ROWS, ROWS, ("label",))
    columns, ids = found.columns, np.arange(ROWS)
    a = table["a"].to_numpy()
    check_spread(columns["id"].numbers, ids)
    check_spread(columns["a"].numbers, a[np.isfinite(a)])
    assert columns["a"].nans == (~np.isfinite(a)).sum()
    assert columns["a"].distinct == pytest.approx(np.isfinite(a).sum(), rel=DISTINCT)
    check_spread(columns["time"].numbers, ids * 1e6)
    check_spread(columns["day"].numbers, table["day"].to_numpy().astype("datetime64[D]").astype(np.int64))
    check_spread(columns["user.age"].numbers, ids % 7)
    assert [(common.value, common.count) for common in columns["label"].commonest] == [
        (0.0, 6667),
        (1.0, 6667),
        (2.0, 6666),
    ]
    assert [(common.value, common.count) for common in columns["yes"].commonest] == [(False, 15000), (True, 5000)]
    text = Counter(value for value in table["text"].to_pylist() if value is not None)
    assert columns["text"].nulls == ROWS // 5
    assert columns["text"].distinct == pytest.approx(len(text), rel=DISTINCT)
    assert all(text[str(common.value)] == common.count for common in columns["text"].commonest)
    assert [common.count for common in columns["text"].commonest] == sorted(text.values(), reverse=True)[:100]


def test_lists_and_bytes_have_lengths(spark: SparkSession, table: pa.Table, lake: Path) -> None:
    found = measured(spark, path=lake, inputs=INPUTS, targets={"y": "label"}, checks={})
    words = found.columns["words"]
    there = [row for row in table["words"].to_pylist() if row is not None]
    check_spread(words.lengths, np.array([len(row) for row in there], np.float64))
    assert (words.type, words.nulls, words.nans, words.distinct) == ("array<float>", 1, 1, None)
    assert words.numbers is not None
    assert (words.numbers.min, words.numbers.max) == (1.0, ROWS - 1)
    check_spread(found.columns["image"].lengths, np.arange(ROWS) % 3.0)


def test_a_sample_knows_the_rows_from_the_footers(spark: SparkSession, lake: Path) -> None:
    section = {"inputs": {"a": "a"}, "targets": {"y": "label"}, "checks": {"sample": 0.25}}
    found = measured(spark, path=lake, **section)
    assert found.rows == ROWS
    assert found.rows_read == pytest.approx(ROWS / 4, rel=0.1)
    fed = measured(spark, path=lake, mode="spark", where="id < 10000", **section)
    assert fed.rows == pytest.approx(ROWS / 2, rel=0.1)


def test_who_reads_the_rows_makes_no_difference(spark: SparkSession, lake: Path) -> None:
    section = {"path": lake, "inputs": INPUTS, "targets": {"y": "label"}, "checks": {}}
    direct, fed = measured(spark, **section), measured(spark, mode="spark", **section)
    assert direct.columns.keys() == fed.columns.keys()
    for name, column in direct.columns.items():
        other = fed.columns[name]
        assert other.model_copy(update={"numbers": None, "lengths": None}) == column.model_copy(
            update={"numbers": None, "lengths": None}
        )
        for one, two in ((column.numbers, other.numbers), (column.lengths, other.lengths)):
            assert (one is None) is (two is None)
            if one is not None and two is not None:
                assert (one.count, one.min, one.max) == (two.count, two.min, two.max)
                assert (one.mean, one.deviation) == pytest.approx((two.mean, two.deviation))


def test_types_are_told_by_a_footer_as_spark_tells_them(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table(
        {
            "tiny": pa.array([1], pa.int8()),
            "long": [1],
            "single": pa.array([1.0], pa.float32()),
            "dec": pa.array([1], pa.decimal128(7, 2)),
            "utc": pa.array([1], pa.timestamp("us", "UTC")),
            "ntz": pa.array([1], pa.timestamp("ms")),
            "day": pa.array([1], pa.date32()),
            "text": ["a"],
            "raw": [b"a"],
            "lists": [[1.0]],
            "user": [{"age": 1}],
            "unsigned": pa.array([1], pa.uint8()),
            "y": [True],
        }
    )
    write_file(tmp_path / "by_arrow" / "part=3" / "a.parquet", table)
    spark.read.parquet(str(tmp_path / "by_arrow")).write.parquet(str(tmp_path / "by_spark"))
    plain = ["tiny", "long", "single", "dec", "utc", "ntz", "day", "text", "raw", "lists", "part"]
    told = []
    for folder in ("by_arrow", "by_spark"):
        for names in (plain, ["unsigned"], ["user.age"]):
            inputs: dict[str, Any] = {name.replace(".", "_"): name for name in names}
            if names == plain:
                inputs["lists"] = {"columns": "lists", "ragged": True}
                inputs["dec"] = {"columns": "dec", "dtype": "float64"}
            config = lake_config(tmp_path / folder, inputs=inputs, targets={"label": "y"}, checks={})
            origin, file_systems = Origin(spark, config), FileSystems()
            plan = choose_feed(spark, config, origin, file_systems, nowhere, lambda line: None)
            assert not plan.staged
            types = footer_types(spark, file_systems, plan, names)
            told.append(types is not None)
            schema = origin.fed.table(names).schema
            assert types is None or types == {field.name: field.dataType for field in schema.fields}
    assert told == [True, False, True, True, True, False]


def test_rows_that_are_held_out_count_once_and_those_of_another_source_do_not(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    section = {"path": lake, "inputs": {"id": "id"}, "targets": {"y": "label"}, "checks": {}}
    held_out = measured(spark, validation={"fraction": 0.3}, **section)
    check_spread(held_out.columns["id"].numbers, np.arange(ROWS))
    write_file(tmp_path / "other.parquet", pa.table({"id": [-1], "label": [0.0]}))
    other = measured(spark, validation={"path": str(tmp_path)}, **section)
    check_spread(other.columns["id"].numbers, np.arange(ROWS))


def test_a_file_that_has_changed_since_it_was_planned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    file = write_file(tmp_path / "a.parquet", pa.table({"a": [1.0, 2.0], "y": [1.0, 2.0]}))
    config = lake_config(tmp_path, inputs={"a": "a"}, targets={"y": "y"}, checks={})
    origin, file_systems = Origin(spark, config, None), FileSystems()
    plan = choose_feed(spark, config, origin, file_systems, nowhere, lambda line: None)
    write_file(file, pa.table({"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}))
    with pytest.raises(CorruptFileError, match=r"a\.parquet has changed since it was planned"):
        statistics_of(spark, origin, config, plan, file_systems, cores=2)


def test_the_rows_of_an_rdd_have_statistics_too(spark: SparkSession) -> None:
    rows = spark.sparkContext.parallelize([(i, float(i % 2)) for i in range(100)], 2)
    section = {"inputs": {"id": "id"}, "targets": {"y": "y"}, "rdd_schema": "id bigint, y double", "checks": {}}
    found = measured(spark, rows, **section)
    check_spread(found.columns["id"].numbers, np.arange(100))


def test_a_column_of_nulls_has_no_numbers(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", pa.table({"a": pa.array([None, None], pa.float64()), "y": [1.0, 2.0]}))
    found = measured(spark, path=tmp_path, inputs={"a": "a"}, targets={"y": "y"}, checks={})
    assert found.columns["a"].nulls == 2
    assert found.columns["a"].numbers == Spread(count=0)


def test_what_spark_cannot_compute_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", pa.table({"a": [1.0, 2.0], "y": [1.0, 2.0]}))
    broken = spark.read.parquet(str(tmp_path)).selectExpr("assert_true(a < 2) is null as a", "y")
    with pytest.raises(DataError, match="Spark cannot compute the data"):
        measured(spark, broken, inputs={"a": "a"}, targets={"y": "y"}, checks={})


def test_a_night_whose_data_has_drifted_is_refused_and_runs_once_it_is_mended(
    local: Application, tmp_path: Path
) -> None:
    nights = {date: write_rows(tmp_path / date) for date in (FIRST, SECOND, THIRD)}

    def night(date: str) -> dict[str, Any]:
        config = job(nights[date], local.sandbox.runs, "cases.watched:build", name="drift", cluster={"workers": 1})
        drift = {"row_ratio": [0.5, 2], "js": 0.1, "columns": True}
        config["data"]["checks"] = {"refuse": {"drift": drift, "columns": {"a": {"max": 100}}}}
        return config

    assert local.train(night(FIRST), FIRST).done.verdict is Verdict.DONE
    second = local.train(night(SECOND), SECOND)
    assert second.done.verdict is Verdict.DONE
    assert f"data.checks: compared with run {FIRST}" in second.output
    stored = Path(local.run(night(SECOND), SECOND).path, "statistics.json")
    statistics = TableStatistics.model_validate_json(stored.read_bytes())
    check_spread(statistics.columns["a"].numbers, pq.read_table(nights[SECOND])["a"].to_numpy().astype(np.float64))

    whole = {path: path.read_bytes() for path in nights[THIRD].iterdir()}
    for path in whole:
        rows = pq.read_table(path)
        a = pa.array(rows["a"].to_numpy() * 1000)
        write_file(path, rows.set_column(rows.schema.get_field_index("a"), "a", a), group_rows=100)
    third = local.train(night(THIRD), THIRD)
    assert (third.verdict, third.failed.attempts) == (3, ())
    assert "column a: the greatest value is" in third.message
    assert "above 100 (data.checks.refuse.columns.a.max)" in third.message
    assert f"column a: the Jensen-Shannon divergence from run {SECOND} is" in third.message
    assert "column b" not in third.message
    for path, content in whole.items():
        path.write_bytes(content)
    assert local.train(night(THIRD), THIRD).done.verdict is Verdict.DONE
