"""Dates and timestamps at `data.path` that Spark would convert from the old calendar are left to Spark."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import lake_config, no_filter

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

SPARK_2, SPARK_3_0, SPARK_4 = ({"org.apache.spark.version": version} for version in ("2.4.8", "3.0.3", "4.3.0"))
LEGACY = {**SPARK_4, "org.apache.spark.legacyDateTime": "", "org.apache.spark.timeZone": "America/New_York"}
LEGACY_INT96 = {**SPARK_4, "org.apache.spark.legacyINT96": ""}

OLD_DAY, NEW_DAY = datetime.date(1582, 10, 14), datetime.date(1582, 10, 15)
OLD_TIME, NEW_TIME = datetime.datetime(1899, 12, 31, 23, 59), datetime.datetime(1900, 1, 1)
TIME = pa.timestamp("us", "UTC")


def is_direct(folder: Path, column: pa.Array, written_by: dict[str, str], **options: Any) -> bool:
    """Whether a column of a file of this writer is read by the trainers."""
    reads = options.pop("reads", None)
    table = pa.table({"c": column, "unused": [OLD_DAY] * len(column), "label": [0] * len(column)})
    pq.write_table(table.replace_schema_metadata(written_by), folder / "f.parquet", **options)
    config = lake_config(folder, inputs={"x": {"columns": "c", "shape": [1]} if "list" in str(column.type) else "c"})
    try:
        plan = plan_source(config, open_storage, no_filter, reads=reads)
    except NotPlainError as error:
        assert "f.parquet may have dates of the old calendar" in str(error)
        return False
    return plan.rows(Stream.TRAIN) == len(column)


@pytest.mark.parametrize(
    ("column", "is_old"),
    [
        (pa.array([OLD_DAY, NEW_DAY]), True),
        (pa.array([NEW_DAY, NEW_DAY]), False),
        (pa.array([OLD_TIME], TIME), True),
        (pa.array([NEW_TIME], TIME), False),
        (pa.array([OLD_TIME], pa.timestamp("ms", "UTC")), True),
        (pa.array([NEW_TIME], pa.timestamp("ms", "UTC")), False),
        (pa.array([[NEW_DAY], [OLD_DAY]]), True),
        (pa.array([[NEW_DAY], [NEW_DAY]]), False),
        (pa.array([1, 2]), False),
    ],
)
def test_values_that_calendars_name_alike_are_told_by_statistics(
    tmp_path: Path, column: pa.Array, is_old: bool
) -> None:
    for writer in (SPARK_2, LEGACY):
        assert is_direct(tmp_path, column, writer) is not is_old
    assert is_direct(tmp_path, column, SPARK_4)
    assert is_direct(tmp_path, column, {})
    assert is_direct(tmp_path, column, {}, reads=SparkReads(rebases_unknown=True)) is not is_old


def test_every_row_group_counts_and_one_without_statistics_may_have_anything(tmp_path: Path) -> None:
    days = pa.array([NEW_DAY, None, OLD_DAY])
    assert not is_direct(tmp_path, days, SPARK_2, row_group_size=1)
    assert is_direct(tmp_path, days.slice(0, 2).fill_null(NEW_DAY), SPARK_2, row_group_size=1)
    assert not is_direct(tmp_path, pa.array([NEW_DAY]), SPARK_2, write_statistics=False)
    assert is_direct(tmp_path, pa.array([NEW_DAY]), SPARK_4, write_statistics=False)


def test_of_nulls_alone_nothing_is_old(tmp_path: Path) -> None:
    assert is_direct(tmp_path, pa.array([None, None], pa.date32()), SPARK_2)


@pytest.mark.parametrize(
    ("written_by", "reads", "direct"),
    [
        (SPARK_2, SparkReads(), False),
        (SPARK_3_0, SparkReads(), False),
        (LEGACY_INT96, SparkReads(), False),
        (LEGACY, SparkReads(), True),
        (SPARK_4, SparkReads(), True),
        ({}, SparkReads(), True),
        ({}, SparkReads(rebases_unknown_int96=True), False),
        ({}, SparkReads(rebases_unknown=True), True),
        (SPARK_4, SparkReads(shifts_int96=True), False),
    ],
)
def test_int96_has_rules_of_its_own(
    tmp_path: Path, written_by: dict[str, str], reads: SparkReads, direct: bool
) -> None:
    column = pa.array([datetime.datetime(2026, 11, 1)], TIME)
    assert is_direct(tmp_path, column, written_by, reads=reads, use_deprecated_int96_timestamps=True) is direct
