"""Which DataFrames are plain scans of Parquet files: asked of real Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from integration.session import scanned, settings, write_days
from lakes import array, batches, deal, id_table, ids, lake_config, no_filter, write_file
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from sparktf.driver.plan.locality import nowhere
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.source.choice import choose_feed
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.scan import plain_scan
from sparktf.errors import ConfigError, EmptySourceError
from sparktf.feed.arrays.columns import Strings
from sparktf.sequence import Stream
from sparktf.storage.file_systems import FileSystems, open_storage

Make = Callable[[SparkSession, Path], DataFrame]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the view `days`, of which there are three tables too."""
    folder = write_days(spark, tmp_path_factory.mktemp("lakes") / "a lake")
    frame = spark.table("days")
    frame.drop("shop").write.saveAsTable("saved")
    frame.write.partitionBy("day").saveAsTable("saved_by_day")
    frame.write.bucketBy(2, "id").saveAsTable("bucketed")
    return folder


def read(spark: SparkSession, lake: Path) -> DataFrame:
    return spark.read.parquet(str(lake))


def table(name: str) -> Make:
    return lambda spark, _: spark.table(name)


def query(text: str) -> Make:
    return lambda spark, _: spark.sql(text)


def over(change: Callable[[DataFrame], DataFrame]) -> Make:
    return lambda spark, lake: change(read(spark, lake))


def direct_ids(scan: ParquetScan, **inputs: Any) -> list[int]:
    """Returns the ids of all rows that trainers would read."""
    config = lake_config(table="t", inputs={"id": "id", **inputs}, targets={"y": "id"})
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    return sorted(ids(plan, deal(plan)))


def spark_ids(df: DataFrame) -> list[int]:
    return sorted(row[0] for row in df.select("id").collect())


PLAIN: dict[str, Make] = {
    "a path": read,
    "a projection": over(lambda df: df.select("label", "id")),
    "columns that change names": over(lambda df: df.selectExpr("label as id2", "a as label", "id", "a", "day as d")),
    "another case": over(lambda df: df.select("LABEL", "ID").withColumnRenamed("ID", "id")),
    "projections of projections": over(lambda df: df.drop("a").selectExpr("id as x", "label").selectExpr("x as id")),
    "a filter over partitions": over(lambda df: df.where("day > '2026-11-01' and shop like '%y'").select("id")),
    "a filter that computes with partitions": over(lambda df: df.where(f.year("day") == 2026)),
    "a saved table": table("saved"),
    "a saved table with partitions": query("select id, label from saved_by_day where day = date'2026-11-02'"),
    "a query over a view": query("select id, label as y from (select * from days where day < '2026-11-03')"),
    "an alias and a hint": over(lambda df: df.alias("t").hint("broadcast").select("t.id", "t.label")),
    "a file given twice": lambda spark, lake: spark.read.parquet(*[str(next(lake.rglob("*.parquet")))] * 2),
    "merged schemas": lambda spark, lake: spark.read.option("mergeSchema", "true").parquet(str(lake)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_scan_is_read_directly_with_the_rows_that_spark_collects(
    spark: SparkSession, lake: Path, name: str
) -> None:
    df = PLAIN[name](spark, lake)
    scan = scanned(df)
    assert list(scan.columns) == df.columns
    assert direct_ids(scan) == spark_ids(df) != []


def odd(column: str) -> Column:
    """Returns what a function of Python's makes of a column."""
    return f.udf(lambda number: number % 2 == 1, "boolean")(column)


NOT_PLAIN: dict[str, tuple[Make, str]] = {
    "a filter that computes": (over(lambda df: df.where("a + 1 > 3 and day > '2026-11-01'")), "filter on columns .*a "),
    "a filter that draws": (over(lambda df: df.where("rand() < 0.5")), "a filter on columns in the files"),
    "a filter with a subquery": (query("select * from days where day = (select max(day) from saved)"), "a subquery"),
    "a join": (query("select r.id from days r join saved s on r.id = s.id"), "the plan has a .*Join"),
    "a semi-join": (query("select id from days where id in (select id from saved)"), "the plan has a .*Join"),
    "a limit": (over(lambda df: df.limit(5)), "the plan has a CollectLimit"),
    "a sample": (over(lambda df: df.sample(0.5, 1)), "the plan has a Sample"),
    "a computed column": (over(lambda df: df.withColumn("c", f.col("a") + 1)), "column 'c' is computed"),
    "a cast": (over(lambda df: df.select(f.col("id").cast("int"))), "column 'id' is computed"),
    "a constant": (over(lambda df: df.withColumn("c", f.lit(1))), "column 'c' is computed"),
    "a function of Python's": (over(lambda df: df.select(odd("id"))), "the plan has an? .*EvalPython"),
    "a union": (over(lambda df: df.union(df)), "the plan has a Union"),
    "a repartition": (over(lambda df: df.repartition(3)), "the plan has an Exchange"),
    "a sort": (over(lambda df: df.sort("a")), "the plan has a Sort"),
    "an aggregate": (over(lambda df: df.groupBy("id").count()), "the plan has a HashAggregate"),
    "metadata of the files": (over(lambda df: df.select("_metadata.file_name")), "column 'file_name' is computed"),
    "rows made by Spark": (lambda spark, _: spark.range(3).toDF("id"), "the plan has a Range"),
    "no rows at all": (over(lambda df: df.limit(0)), "the plan has a LocalTableScan"),
    "a bucketed table": (table("bucketed"), "the table is bucketed"),
    "two columns of one name": (over(lambda df: df.select("id", "id")), "two columns are called 'id'"),
    "text": (lambda spark, lake: spark.read.text(str(lake)), "the files are read by TextFileFormat"),
    "an option that changes what is read": (
        lambda spark, lake: spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(lake)),
        "the files are read with option datetimerebasemode",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_anything_else_is_not_and_says_why(spark: SparkSession, lake: Path, name: str) -> None:
    make, reason = NOT_PLAIN[name]
    with pytest.raises(NotPlainError, match=reason) as found:
        plain_scan(make(spark, lake))
    assert "\n" not in str(found.value)


def test_values_come_from_the_columns_that_spark_takes_them_from(spark: SparkSession, lake: Path) -> None:
    df = (
        read(spark, lake)
        .selectExpr("b as a", "a as b", "id", "day as label", "shop as day")
        .where("label < '2026-11-03'")
    )
    config = lake_config(table="t", inputs={"id": "id", "x": ["a", "b"], "day": "day"}, targets={"y": "label"})
    plan = plan_source(config, open_storage, no_filter, scan=scanned(df))
    found = batches(plan, deal(plan)[0], rows=1000)[0]
    shops = found["input:day"]
    assert isinstance(shops, Strings)
    names = [shop.decode() for shop in shops.to_numpy()]
    rows = zip(*(array(found, key).tolist() for key in ("input:id", "input:x", "target:y")), names, strict=True)
    first = date(1970, 1, 1)
    assert sorted((i, *x, y, shop) for i, x, y, shop in rows) == sorted(
        (row.id, row.a, row.b, (row.label - first).days, row.day) for row in df.collect()
    )


def test_a_filter_that_no_partition_passes_leaves_no_file(spark: SparkSession, lake: Path) -> None:
    scan = scanned(read(spark, lake).where("day = '2027-01-01'"))
    assert scan.files == ()
    with pytest.raises(EmptySourceError, match=r"data\.table: the partition filters select no file"):
        direct_ids(scan)


def test_empty_files_are_passed_over_as_spark_does(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    write_file(tmp_path / "lake/f.parquet", id_table(0, 5))
    (tmp_path / "lake/g.parquet").touch()
    df = spark.read.schema("id long").parquet(str(tmp_path / "lake"))
    assert direct_ids(scanned(df)) == spark_ids(df) == [0, 1, 2, 3, 4]


def test_cached_rows_are_sparks(spark: SparkSession, lake: Path) -> None:
    df = read(spark, lake).select("id", "label")
    scanned(df)
    df.cache()
    try:
        for cached in (df, df.select("id")):
            with pytest.raises(NotPlainError, match=r"^the DataFrame, or a part of it, is cached$"):
                plain_scan(cached)
    finally:
        df.unpersist()
    scanned(df)


MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
INT96 = {"spark.sql.parquet.outputTimestampType": "INT96"}
LEGACY = {f"spark.sql.parquet.{kind}RebaseModeInWrite": "LEGACY" for kind in ("datetime", "int96")}


@pytest.mark.parametrize(
    ("setting", "column", "reason"),
    [
        (INT96, "timestamp'2026-11-01 12:00:00'", "INT96 timestamps"),
        (INT96 | LEGACY, "timestamp'1880-11-01 12:00:00'", "INT96 timestamps"),
        (MICROS, "timestamp'2026-11-01 12:00:00'", ""),
        (MICROS | LEGACY, "timestamp'2026-11-01 12:00:00'", ""),
        (MICROS | LEGACY, "timestamp'1880-11-01 12:00:00'", "dates of the old calendar"),
        (LEGACY, "date'1500-01-01'", "dates of the old calendar"),
        (LEGACY, "date'2026-11-01'", ""),
        ({"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}, "date'1200-01-01'", ""),
        ({}, "timestamp_ntz'2026-11-01 12:00:00'", ""),
    ],
)
def test_times_are_read_directly_unless_spark_converts_them(
    spark: SparkSession, tmp_path: Path, setting: dict[str, str], column: str, reason: str
) -> None:
    with settings(spark, setting):
        spark.range(5).selectExpr("id", f"{column} as t").write.parquet(str(tmp_path / "lake"))
    df = read(spark, tmp_path / "lake")
    scan = scanned(df)
    assert direct_ids(scan) == [0, 1, 2, 3, 4]
    if reason:
        with pytest.raises(NotPlainError, match=reason):
            direct_ids(scan, t="t")
    else:
        assert direct_ids(scan, t="t") == [0, 1, 2, 3, 4]
    # The same files as `data.path`: trainers read what Spark reads, or leave it to Spark.
    config = lake_config(tmp_path / "lake", inputs={"t": "t"}, targets={"y": "id"}, mode="auto")
    said: list[str] = []
    plan = choose_feed(spark, config, Origin(spark, config), FileSystems(), nowhere, said.append)
    if "LEGACY" in setting.values() and reason:
        assert plan.staged == (Stream.TRAIN,)
        assert len(said) == 1
        assert said[0].startswith(f"data: read through Spark, {tmp_path}/lake/part-")
        with pytest.raises(ConfigError, match=r"data\.mode: direct cannot read data\.path as Spark does: .* calendar"):
            direct = lake_config(tmp_path / "lake", inputs={"t": "t"}, targets={"y": "id"}, mode="direct")
            choose_feed(spark, direct, Origin(spark, direct), FileSystems(), nowhere, said.append)
        return
    assert said == ["data: read directly by the trainers, all Parquet files at data.path"]
    # A timestamp without a zone is one in UTC to us.
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        number = "unix_date(t)" if column.startswith("date") else "unix_micros(cast(t as timestamp))"
        (row,) = df.selectExpr(number).take(1)
    assert set(array(batches(plan, deal(plan)[0], rows=1000)[0], "input:t").tolist()) == {row[0]}


def test_a_schema_that_the_files_have_not_is_sparks(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "lake/f.parquet", id_table(0, 5))
    for schema, reason in (
        ("ID long, label int", r"no column 'ID'"),
        ("id long, label long", r"column 'label' is of type int, but bigint in Spark"),
    ):
        scan = scanned(spark.read.schema(schema).parquet(str(tmp_path / "lake")).withColumnRenamed("ID", "id"))
        with pytest.raises(NotPlainError, match=reason):
            direct_ids(scan, x="label")
    for later in ("double", "struct<a: int>"):
        scan = scanned(spark.read.schema(f"id long, label int, later {later}").parquet(str(tmp_path / "lake")))
        with pytest.raises(NotPlainError, match=r"no column 'later'"):
            direct_ids(scan, x="later" if later == "double" else "label")
    # A column that came later, and that nobody uses.
    scan = scanned(spark.read.schema("id long, label int, later double").parquet(str(tmp_path / "lake")))
    assert direct_ids(scan, x="label") == [0, 1, 2, 3, 4]


def test_columns_of_fixed_width_are_padded_by_spark(spark: SparkSession, lake: Path) -> None:
    spark.sql("create table padded (id long, c char(5), v varchar(5)) using parquet")
    with pytest.raises(NotPlainError, match=r"^column 'c' is computed$"):
        plain_scan(spark.table("padded"))
    scanned(spark.table("padded").select("id", "v"))


def test_other_readers_and_formats_are_sparks(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    read(spark, lake).write.orc(str(tmp_path / "orc"))
    with pytest.raises(NotPlainError, match=r"^the files are read by OrcFileFormat$"):
        plain_scan(spark.read.orc(str(tmp_path / "orc")))
    with (
        settings(spark, {"spark.sql.sources.useV1SourceList": ""}),
        pytest.raises(NotPlainError, match=r"^the plan has a BatchScan"),
    ):
        plain_scan(read(spark, lake))


def test_a_plan_that_spark_does_not_show_is_not_plain(spark: SparkSession, lake: Path) -> None:
    stream = spark.readStream.schema("id long").parquet(str(lake))
    with pytest.raises(NotPlainError, match=r"^the plan cannot be inspected \("):
        plain_scan(stream)
