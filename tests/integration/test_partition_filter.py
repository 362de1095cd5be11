"""`where` is Spark SQL: the filter against real Spark, and our types of partition values against Spark's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from integration.session import settings
from lakes import id_table, plan_lake, write_file
from meant import meant, meant_since_4_1
from pyspark.sql import SparkSession

from sparktf.driver.plan.partitions import read_partitions, unreadable
from sparktf.driver.source.partition_filter import filter_partitions
from sparktf.driver.source.scan import spark_reads
from sparktf.errors import ConfigError
from sparktf.sequence import PartitionValue, Stream

NAMES = ("day", "region", "hour", "ratio")
TYPES = ("date", "string", "int", "double")
ROWS: list[tuple[PartitionValue, ...]] = [
    ("2026-11-01", "de", 1, 0.5),
    ("2026-11-02", "fr", 2, 1.5),
    (None, None, None, None),
    ("2026-12-01", "it's", 3, 2.5),
]


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        ("day >= '2026-11-02'", [1, 3]),
        ("day between date'2026-11-01' and date_add(date'2026-11-01', 1)", [0, 1]),
        # Two literals beside one another were joined, before a doubled quote stood for one.
        ("region in ('de', 'it''s')", meant_since_4_1([0, 3], before=[0])),
        (r"region in ('de', 'it\'s')", [0, 3]),
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
            r": `dai` is not a partition column; set `data\.mode: spark` to filter by columns of the",
        ),
        ("day > '2026' and label is not null", r": `label` is not a partition column; set `data\.mode: spark`"),
        ("day >", r"Syntax error at or near end of input"),
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


def test_text_beside_a_number_is_refused_or_null_as_in_spark(spark: SparkSession) -> None:
    def found() -> list[bool]:
        return filter_partitions(spark, NAMES, TYPES, ROWS, "region > 5 or hour = 3")

    if meant("ANSI", before_4="") == "ANSI":
        with pytest.raises(ConfigError, match=r"'de' of the type .STRING. cannot be cast"):
            found()
    else:
        assert found() == [False, False, False, True]
    with settings(spark, {"spark.sql.ansi.enabled": "false"}):
        assert found() == [False, False, False, True]


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


NULL = "__HIVE_DEFAULT_PARTITION__"

VALUES = [
    ["01", "2", NULL],
    ["1", "3000000000"],
    ["2147483648", "-2147483648"],
    ["1", "2.5"],
    ["3000000000", "2.5"],
    ["1", "3000000000", "2.5"],
    ["1d", "2F"],
    ["-.5e-3", "1"],
    ["NaN", "-Infinity", "+Infinity"],
    ["nan", "Infinityd"],
    [" 1", "2 ", "3\t"],
    ["\u00a01"],
    ["0x1p3", "0x1.8p1d"],
    ["0x10"],
    ["1e400", "-0.0"],
    ["1e3"],
    ["1e3", "1", "-2e1"],
    ["1.", "3000000000"],
    ["1e3", "2.5"],
    ["1.5e1", "0e3"],
    ["1.50e1"],
    ["99999999999999999999", "1"],
    ["99999999999999999999", "1.5"],
    ["9223372036854775808"],
    ["1" * 39],
    ["\u0661\u0662", "\uff11"],
    ["\u0661.5"],
    ["\u0661e\u0663"],
    ["%31", "2"],
    ["a%2Fb", "x y"],
    ["%C3%A9", "%zz", "%4"],
    ["1_0", "2"],
    ["+1", "-1"],
    ["true", "false"],
    [NULL],
    ["2026-11-01", "2026-11-2"],
    ["2026-11-01", "2026-11-31"],
    ["2026-11-01", "5"],
    ["2026-11-01", "2026-12-01", NULL],
    ["2026%2D11%2D01"],
    ["2026-11-01 "],
    ["2026-11-01 10%3A00%3A00", "2026-11-02"],
    ["2026-03-08 02:30:00", "2026-11-01 01:30:00", "1800-01-01 00:00:00.5"],
    ["2026-11-01 10:00:00.123"],
    ["2026-11-01 24:00:00"],
    ["2026-11-01 10:00:00", "x"],
    ["12:00:00", "x"],
    ["12:00"],
]
TIMES = [["12:00:00", "12%3A00%3A00.5"]]
OLD_DAYS = [["0000-02-29"], ["-0001-01-01"]]
ONLY_SPARK = [*meant_since_4_1(TIMES, before=[]), *OLD_DAYS]
"""Types of Spark's alone, or values."""


def test_partition_values_are_typed_as_spark_types_them(spark: SparkSession, tmp_path: Path) -> None:
    plain = [*VALUES, *meant_since_4_1([], before=TIMES)]
    cases = [*plain, *ONLY_SPARK]
    folders = ["/".join(f"k{i}={raw[row % len(raw)]}" for i, raw in enumerate(cases)) for row in range(3)]
    for row, folder in enumerate(folders):
        write_file(tmp_path / folder / "f.parquet", id_table(row, 1))
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        frame = spark.read.parquet(str(tmp_path)).orderBy("id")
        kinds = dict(frame.dtypes)
        columns = [f"unix_micros(k{i})" if kinds[f"k{i}"] == "timestamp" else f"k{i}" for i in range(len(plain))]
        theirs = frame.selectExpr(*columns).collect()
        ours = read_partitions(folders, spark_reads(spark))
    assert dict(zip(ours.names, ours.types, strict=True)) == {name: kinds[name] for name in ours.names}
    for i, raw in enumerate(plain):
        expected = [None if row[i] is None else str(row[i]) for row in theirs]
        assert [None if row[i] is None else str(row[i]) for row in ours.values] == expected, raw
    names = [f"k{i}" for i in range(len(cases))]
    assert [name for name in names if unreadable(ours, [name])] == names[len(plain) :]


def test_predicates_over_values_of_every_type(spark: SparkSession) -> None:
    names = ("number", "moment", "nothing", "decimal")
    types = ("double", "timestamp", "void", "decimal(20,0)")
    rows: list[tuple[PartitionValue, ...]] = [
        (float("nan"), 1793527200000000, None, "99999999999999999999"),
        (float("inf"), None, None, None),
        (1.0, 0, None, "5"),
    ]
    for predicate, chosen in [
        ("number > 5", [0, 1]),
        ("moment > timestamp'2026-11-01 00:00:00 UTC'", [0]),
        ("nothing is null and decimal > 6", [0]),
        ("decimal = 5", [2]),
    ]:
        found = filter_partitions(spark, names, types, rows, predicate)
        assert [i for i, selected in enumerate(found) if selected] == chosen, predicate
