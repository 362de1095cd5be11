"""Batches of Arrow's as a DataFrame, where PySpark takes none: the way it hands over those that it makes of pandas'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.types import StructType

from sparktf.driver.spark.jvm import java


def frame_of_batches(spark: SparkSession, batches: Iterable[pa.RecordBatch], schema: StructType) -> DataFrame:
    """Returns batches of a schema's types as a DataFrame; few rows are a part of its plan, and no job filters them."""
    context: Any = spark.sparkContext
    session: Any = spark
    jvm = java()
    utils = jvm.PythonSQLUtils
    handed = context._serialize_to_jvm(
        batches, ArrowStreamSerializer(), utils.readArrowStreamFromFile, jvm.ArrowIteratorServer
    )
    return DataFrame(utils.toDataFrame(handed, schema.json(), session._jsparkSession), session)
