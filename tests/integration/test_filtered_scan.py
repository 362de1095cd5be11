"""Filters over columns in the files: which of them trainers apply themselves, and that they do it as Spark does."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.session import scanned, settings
from lakes import array, batches, deal, ids, lake_config, no_filter
from pyspark.sql import DataFrame, SparkSession

from sparktf.driver.plan.files import RowGroups
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.plan.row_filter import count_selected
from sparktf.driver.source.scan import plain_scan
from sparktf.errors import BadValueError, CorruptFileError, EmptySourceError
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

ROWS = 240
COLUMNS = (
    "id",
    "if(id % 5 = 0, null, id) as maybe",
    "cast(id % 100 - 50 as tinyint) as small",
    "id div 60 as part",  # the same in all of a file
    "cast(case id % 6 when 0 then null when 1 then double('NaN') when 2 then -0.0 else id / 8 - 9 end as double) as d",
    "cast(case id % 6 when 0 then null when 1 then double('NaN') when 2 then 0.0 else id / 8 - 9 end as float) as f",
    "case id % 4 when 0 then null when 1 then '' when 2 then 'Zoë' else concat('s', id) end as text",
    "if(id % 3 = 0, null, id % 2 = 0) as flag",
    "if(id % 7 = 0, null, date_add(date'1969-12-20', cast(id as int))) as day",
    "if(id % 7 = 0, null, timestamp_micros(id * 1000000 - 5)) as at",
    "if(id % 7 = 0, null, cast(timestamp_micros(id * 1000000 - 5) as timestamp_ntz)) as there",
    "cast(id as decimal(9, 2)) as price",
    "named_struct('age', id) as user",
    "id % 2 as half",
)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files with consecutive rows in partitions of two halves."""
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    frame = spark.range(0, ROWS, 1, 4).selectExpr(*COLUMNS)
    with settings(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        frame.write.partitionBy("half").parquet(str(folder))
    return folder


@pytest.fixture(scope="module")
def frame(spark: SparkSession, lake: Path) -> DataFrame:
    """The lake as Spark reads it: its files are listed once."""
    return spark.read.parquet(str(lake))


FILTERS = (
    "id >= 100",
    "id > 59 and id <= 60",
    "100 > id and 7 <= id",
    "id between 50 and 70 and half = 1",
    "id != 17",
    "not (id = 17)",
    "id in (3, 5, 99, 1000)",
    "maybe = 33",
    "maybe != 33",
    "maybe is null",
    "maybe is not null and id < 200",
    "small < -40",
    "small in (-50, 49)",
    "part = 2",
    "part <> 2 and part >= 1",
    "d > 3",
    "d >= 3",
    "d < -2.5",
    "d = 0.0",
    "d != 0.0",
    "f > 3.0f",
    "f > 0.1",
    "f <= 0.0f",
    "text = ''",
    "text > 'Zo'",
    "text < 's2'",
    "text in ('Zoë', 's3')",
    "text is null",
    "flag",
    "not flag",
    "flag = false",
    "day >= date'1970-01-03'",
    "day < '1970-01-01' and id > 2",
    "day = date'1970-02-01'",
    "at > timestamp'1970-01-01 00:01:00'",
    "at < timestamp'1970-01-01 00:00:03'",
    "there >= timestamp_ntz'1970-01-01 00:02:00'",
)


@pytest.mark.parametrize("where", FILTERS)
def test_rows_that_pass_are_those_that_spark_collects(frame: DataFrame, where: str) -> None:
    df = frame.where(where).select("id", "part")
    scan = scanned(df)
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "part"})
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    found = sorted(ids(plan, deal(plan)))
    assert found == sorted(row.id for row in df.collect()) != []
    assert plan.rows(Stream.TRAIN) == len(found)


@pytest.fixture(scope="module")
def odd_values(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A file each of -0.0, of NaN, and of the days that the calendar left out in 1582, all beside others."""
    folder = tmp_path_factory.mktemp("lakes") / "odd"
    days = "cast(date_add(date'1582-10-05', cast(id div 20 * 4 as int)) as timestamp_ntz)"
    frame = spark.range(0, 60, 1, 3).selectExpr(
        "id",
        "case when id < 20 then (id % 2 - 1) * 0.0D when id % 3 = 0 then double('NaN') else id / 2 - 15 end d",
        f"{days} as there",
        f"cast({days} as timestamp) as at",
    )
    as_written = {f"spark.sql.parquet.{kind}RebaseModeInWrite": "CORRECTED" for kind in ("datetime", "int96")}
    with settings(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", **as_written}):
        frame.write.parquet(str(folder))
    # In Arrow's files, unlike Spark's, the statistics of columns with NaN count, without it.
    year = datetime(2020, 1, 1)
    table = pa.table(
        {
            "id": range(60, 64),
            "d": [1.0, float("nan"), -1.0, None],
            "there": pa.array([year] * 4, pa.timestamp("us")),
            "at": pa.array([year] * 4, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, folder / "part-arrow.parquet")
    return spark.read.parquet(str(folder))


LOST_BY_PUSHDOWN = (
    "d = -0.0D",
    "d = 0.0D",
    "d > 3",
    "d >= 14.5D",
    "d > 1e300D",
    "d <= -0.0D",
    "at > timestamp'1582-10-05 00:00:00'",
    "at = timestamp'1582-10-09 00:00:00'",
    "at < timestamp'1582-10-13 12:00:00'",
    "there >= timestamp_ntz'1582-10-09 00:00:00' and there < timestamp_ntz'1582-10-15 00:00:00'",
)


@pytest.mark.parametrize("where", LOST_BY_PUSHDOWN)
def test_rows_that_spark_would_lose_by_pushing_the_filter_down_pass(
    spark: SparkSession, odd_values: DataFrame, where: str
) -> None:
    df = odd_values.where(where).select("id")
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "id"})
    plan = plan_source(config, open_storage, no_filter, scan=scanned(df))
    with settings(spark, {"spark.sql.parquet.filterPushdown": "false"}):
        wanted = sorted(row.id for row in odd_values.where(where).select("id").collect())
    assert sorted(ids(plan, deal(plan))) == wanted != []


OTHERS = (
    "id > 5 or part = 1",
    "id + 1 > 5",
    "id > part",
    "id <=> 5",
    "id > 5 and rand() < 0.5",
    "cast(id as string) = '5'",
    "text like 's%'",
    "price > 5",
    "user.age > 5",
    "d in (0.0, 1.0)",
)


@pytest.mark.parametrize("where", OTHERS)
def test_any_other_filter_is_sparks(frame: DataFrame, where: str) -> None:
    with pytest.raises(NotPlainError, match="the plan has a filter on columns in the files, "):
        plain_scan(frame.where(where).select("id"))


def test_a_filter_between_projections_is_of_the_columns_that_it_names(frame: DataFrame) -> None:
    df = frame.selectExpr("part as id2", "id as part").where("part > 100 and id2 < 3")
    df = df.selectExpr("part as id", "id2 as part")
    scan = scanned(df)
    plan = plan_source(
        lake_config(table="t", inputs={"id": "id"}, targets={"y": "part"}), open_storage, no_filter, scan=scan
    )
    assert sorted(ids(plan, deal(plan))) == list(range(101, 180))


def test_nulls_of_rows_that_do_not_pass_are_not_refused_and_others_are_named(frame: DataFrame) -> None:
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "maybe"})
    scan = scanned(frame.where("maybe is not null").select("id", "maybe"))
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    (batch,) = batches(plan, deal(plan)[0], rows=1000)
    assert sorted(array(batch, "input:id").tolist()) == [i for i in range(ROWS) if i % 5]
    assert array(batch, "input:id").tolist() == array(batch, "target:y").tolist()
    scan = scanned(frame.where("id >= 63 and id < 70 and half = 1").select("id", "maybe"))
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    with pytest.raises(BadValueError, match=r"half=1/.*column 'maybe', row 2: null"):  # 61, 63, 65
        batches(plan, deal(plan)[0], rows=1000)


def test_a_fraction_is_held_out_of_the_rows_that_pass(frame: DataFrame) -> None:
    scan = scanned(frame.where("maybe is not null").select("id", "part"))
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "part"}, validation={"fraction": 0.25})
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    parts = [sorted(ids(plan, deal(plan, stream=stream))) for stream in (Stream.TRAIN, Stream.VALIDATION)]
    assert [len(part) for part in parts] == [144, 48]
    assert sorted(parts[0] + parts[1]) == [i for i in range(ROWS) if i % 5]


def test_a_filter_that_nothing_passes_leaves_no_row(frame: DataFrame) -> None:
    scan = scanned(frame.where("maybe = 35").select("id", "part"))
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "part"})
    with pytest.raises(EmptySourceError, match=r"data\.table: none of 240 rows passes the filter"):
        plan_source(config, open_storage, no_filter, scan=scan)


def test_files_with_other_rows_than_were_counted_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for values in ("id", "9 - id"):  # as many bytes, in another order
        spark.range(0, 10, 1, 1).selectExpr("id", f"cast({values} as int) as x").write.parquet(
            str(tmp_path / values), compression="none"
        )
    scan = scanned(spark.read.parquet(str(tmp_path / "id")).where("x < 3 and x != 1").select("id"))
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "id"})
    plan = replace(plan_source(config, open_storage, no_filter, scan=scan), stamps=None)
    (old,), (new,) = ((tmp_path / values).glob("*.parquet") for values in ("id", "9 - id"))
    old.write_bytes(new.read_bytes())
    assert ids(plan, deal(plan))  # the same number of rows passes
    spark.range(0, 10, 1, 1).selectExpr("id", "cast(id + 1 as int) as x").write.parquet(
        str(tmp_path / "more"), compression="none"
    )
    old.write_bytes(next((tmp_path / "more").glob("*.parquet")).read_bytes())
    with pytest.raises(CorruptFileError, match="has changed since it was planned"):
        ids(plan, deal(plan))


def test_where_too_much_would_be_read_to_count_spark_reads(frame: DataFrame, lake: Path) -> None:
    scan = scanned(frame.where("d > 3").select("id"))
    config = lake_config(table="t", inputs={"id": "id"}, targets={"y": "id"})
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    table = plan.tables[Stream.TRAIN]
    groups = RowGroups(*[table.file, table.row_group, *[table.group_rows] * 5])
    storage = open_storage(str(lake))
    assert count_selected(storage, plan.files, groups, scan.where).rows.sum() == plan.rows(Stream.TRAIN)
    with pytest.raises(NotPlainError, match=r"counting the rows that pass its filter would read 0\.0 GB first"):
        count_selected(storage, plan.files, groups, scan.where, max_nbytes=10)
    # What the footers decide, nobody reads.
    part = scanned(frame.where("part >= 1").select("id"))
    assert count_selected(storage, plan.files, groups, part.where, max_nbytes=10).rows.sum() == 180
