"""`where` is Spark SQL: the filter against real Spark, and our types of partition values against Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from lakes import id_table, plan_lake, write_file
from pyspark.sql import SparkSession

from sparktf.driver.partition_filter import filter_partitions
from sparktf.driver.partitions import read_partitions
from sparktf.errors import ConfigError
from sparktf.plan import PartitionValue, Stream

NAMES = ("day", "region", "hour", "ratio")
TYPES = ("date", "string", "int", "double")
ROWS: list[tuple[PartitionValue, ...]] = [
    ("2026-11-01", "de", 1, 0.5),
    ("2026-11-02", "fr", 2, 1.5),
    (None, None, None, None),
    ("2026-12-01", "it's", 3, 2.5),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        ("day >= '2026-11-02'", [1, 3]),
        ("day between date'2026-11-01' and date_add(date'2026-11-01', 1)", [0, 1]),
        ("region in ('de', 'it''s')", [0, 3]),
        ("DAY = '2026-11-01' OR hour > 2", [0, 3]),
        ("region is null", [2]),
        ("not (region = 'de')", [1, 3]),
        ("ratio * 2 = hour + 1", [1]),
        ("region like '%r'", [1]),
        ("true", [0, 1, 2, 3]),
        ("month(day) = 11 and ratio > 1", [1]),
    ],
)
def test_predicates_mean_what_they_mean_in_spark(spark: SparkSession, predicate: str, chosen: list[int]) -> None:
    found = filter_partitions(spark, NAMES, TYPES, ROWS, predicate)
    assert [i for i, selected in enumerate(found) if selected] == chosen


def test_no_spark_job_runs(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    many = [(f"{2000 + i // 300}-01-01", f"r{i}", i, i / 2) for i in range(5000)]
    assert sum(filter_partitions(spark, NAMES, TYPES, many, "hour % 2 = 0")) == 2500
    assert set(tracker.getJobIdsForGroup(None)) == before


@pytest.mark.parametrize(
    ("predicate", "reason"),
    [
        (
            "dai = '2026-11-01'",
            r": `dai` is no partition column; `data\.mode: spark` has Spark filter by columns of the",
        ),
        ("day > '2026' and label is not null", r": `label` is no partition column; `data\.mode: spark` has Spark"),
        ("day >", r"Syntax error at or near end of input"),
        ("region > 5", r"'de' of the type .STRING. cannot be cast"),
        ("region", r"(?i)filter expression .* of type .STRING. is not a boolean"),
        ("max(hour) = 3", r"invalid expressions: max\(hour\)"),
        ("nosuch(day)", r"`nosuch`"),
    ],
)
def test_a_wrong_predicate_gives_sparks_reason_in_one_line(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], predicate: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        filter_partitions(spark, NAMES, TYPES, ROWS, predicate)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith("(partition columns: day, region, hour, ratio)")
    assert "row/" not in message
    assert "\tat org.apache.spark" not in capfd.readouterr().err


def test_a_plan_with_where(spark: SparkSession, tmp_path: Path) -> None:
    for day in range(1, 5):
        write_file(tmp_path / f"date=2026-11-0{day}" / "f.parquet", id_table(10 * day, 10))
    plan = plan_lake(
        tmp_path,
        partial(filter_partitions, spark),
        where="date >= '2026-11-02'",
        validation={"where": "date = '2026-11-04'"},
    )
    assert (plan.rows(Stream.TRAIN), plan.rows(Stream.VALIDATION)) == (20, 10)


@pytest.mark.parametrize(
    "raw",
    [
        ["01", "2", "__HIVE_DEFAULT_PARTITION__"],
        ["1", "3000000000"],
        ["1", "2.5"],
        ["3000000000", "2.5"],
        ["1d", "2F"],
        ["-.5e-3", "1"],
        ["2026-11-01", "2026-11-2"],
        ["2026-11-01", "2026-11-31"],
        ["2026-11-01", "5"],
        ["2026-11-01", "2026-12-01"],
        ["a%2Fb", "x y"],
        ["1_0", "2"],
        ["true", "false"],
    ],
)
def test_partition_values_are_typed_as_spark_types_them(spark: SparkSession, tmp_path: Path, raw: list[str]) -> None:
    for i, value in enumerate(raw):
        write_file(tmp_path / f"k={value}" / "f.parquet", id_table(i, 1))
    frame = spark.read.parquet(str(tmp_path)).orderBy("id").select("k")
    theirs = [None if row[0] is None else str(row[0]) for row in frame.collect()]
    ours = read_partitions([f"/k={value}" for value in raw])
    assert ours.types == (dict(frame.dtypes)["k"],)
    assert [None if value is None else str(value) for (value,) in ours.values] == theirs
