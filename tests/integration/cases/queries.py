"""Sources as users write them: functions that return DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query(spark: SparkSession, text: str) -> DataFrame:
    """Returns the rows of a query, for `train(spark, config, data)`."""
    return spark.sql(text)


def late(spark: SparkSession, params: dict[str, Any]) -> DataFrame:
    """Returns the rows of the last days, with their columns called as the model knows them; for `data.source`."""
    days = spark.read.parquet(params["lake"]).where("day > '2026-11-01'")
    return days.selectExpr("id", "left_half as a", "right_half as b", "y")
