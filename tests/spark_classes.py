"""What Spark does in most tests, so that its process loads the classes for that: `make classes` keeps them.

spark-submit --master 'local[2]' tests/spark_classes.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession


def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that returns what it is given."""
    yield from batches


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        spark = SparkSession.builder.getOrCreate()
        spark.range(100).selectExpr("id", "id % 3 as day").write.partitionBy("day").parquet(lake)
        rows = spark.read.parquet(lake).where("day < 2")
        assert rows.mapInArrow(passed_on, rows.schema).count() == 67
        assert rows.rdd.barrier().mapPartitions(list).count() == 67
        spark.stop()
