"""Functions for `data.source` that note their calls."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from .frames import with_values


def noted(spark: SparkSession, params: dict[str, Any]) -> DataFrame:
    """Returns rows that go through a function of this module; leaves a file in the folder that `params` names."""
    Path(params["calls"], uuid.uuid4().hex).touch()
    ids = spark.range(1, params["rows"] + 1, 1, 3)
    return with_values(ids.select(sql.udf(same, "bigint")("id").alias("id")))


def frame(spark: SparkSession, params: dict[str, Any]) -> DataFrame:
    """Returns rows that Spark computes, with ids from 1 on."""
    return with_values(spark.range(1, params["rows"] + 1, 1, 3))


def records(spark: SparkSession, params: dict[str, Any]) -> RDD[Any]:
    """Returns the rows of `frame` as tuples."""
    return frame(spark, params).rdd.map(tuple)


def same(value: int) -> int:
    """Returns what it is given."""
    return value
