"""A SparkSession of the test's own process, and tables in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from integration.sandbox import QUICK_START
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.source.scan import plain_scan


@contextmanager
def session(warehouse: Path) -> Iterator[SparkSession]:
    """Starts Spark in this process, with its tables in a folder, and stops it in the end."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    builder = builder.config("spark.driver.extraJavaOptions", QUICK_START)
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield spark
    spark.stop()


@contextmanager
def settings(spark: SparkSession, changed: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of a session for a while."""
    before = {key: spark.conf.get(key) or "" for key in changed}
    try:
        for key, value in changed.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def write_days(spark: SparkSession, folder: Path) -> Path:
    """Writes ninety rows in partitions of three days and shops whose names need care; they are the view `days` too."""
    shop = f.element_at(f.array(*map(f.lit, ("a b", "x=1; y", "50%"))), (f.col("id") % 3 + 1).cast("int"))
    frame = spark.range(90).select(
        "id",
        (f.col("id") * 2).cast("float").alias("a"),
        (f.col("id") * 3).cast("float").alias("b"),
        (f.col("id") % 7).cast("int").alias("label"),
        f.expr("date_add(date'2026-11-01', cast(id % 3 as int))").alias("day"),
        shop.alias("shop"),
    )
    frame.write.partitionBy("day", "shop").parquet(str(folder))
    spark.read.parquet(str(folder)).createOrReplaceTempView("days")
    return folder


def scanned(df: DataFrame) -> ParquetScan:
    """Returns the plain scan that a DataFrame must be."""
    found = plain_scan(df)
    assert isinstance(found, ParquetScan), found
    return found
