"""Tables of Delta and Iceberg that tests write and look at, with the columns id, a, b and y."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from sparktf import JobConfig
from sparktf.driver.source.dataframe import open_dataframe
from sparktf.predict.dated import score

from .frames import with_values


def append(spark: SparkSession, table: str, kind: str, rows: int, commits: int = 1, files: int = 1) -> DataFrame:
    """Appends rows with ids from 1 on: as many in each file, and as many files in each commit."""
    size = rows // commits
    for first in range(1, rows, size):
        written = with_values(spark.range(first, first + size, 1, files))
        written.write.format(kind).mode("append").saveAsTable(table)
    return spark.range(0)


def run(spark: SparkSession, statements: Sequence[str]) -> DataFrame:
    """Runs statements; returns the result of the last one."""
    *before, last = statements
    for statement in before:
        spark.sql(statement)
    return spark.sql(last)


def ids(spark: SparkSession, config: dict[str, Any]) -> DataFrame:
    """Returns the ids that a configuration leads to, and their partitions."""
    data = open_dataframe(spark, JobConfig.model_validate(config)).data
    assert isinstance(data, DataFrame)
    return data.select("id", sql.spark_partition_id())


def scored(spark: SparkSession, config: dict[str, Any], date: str) -> DataFrame:
    """Scores a day; returns the ids of its predictions."""
    made = score(spark, JobConfig.model_validate(config).for_day(dt.date.fromisoformat(date)))
    return spark.read.parquet(made.place).select("id")
