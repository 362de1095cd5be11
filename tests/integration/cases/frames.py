"""DataFrames with the columns id, a, b and y: what users feed, and what goes wrong in it."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

_POLL_S = 0.05


def partitions(spark: SparkSession, sizes: Sequence[int]) -> DataFrame:
    """Returns a partition of each size, with ids from 1 on."""
    firsts = [1 + sum(sizes[:i]) for i in range(len(sizes))]
    cases = " ".join(
        f"when {i} then sequence({first}L, {first + size - 1}L)"
        for i, (first, size) in enumerate(zip(firsts, sizes, strict=True))
        if size
    )
    numbers = spark.range(0, len(sizes), 1, len(sizes))
    ids = sql.explode(sql.expr(f"case id {cases} end") if cases else sql.expr("cast(null as array<bigint>)"))
    frame = with_values(numbers.select(ids.alias("id")))
    if frame.rdd.getNumPartitions() != len(sizes):
        raise ValueError("Spark has put partitions together")
    return frame


def with_values(ids: DataFrame) -> DataFrame:
    """Returns the columns that follow from the id."""
    frame = ids.selectExpr("id", "float(id % 11) / 11 as a", "float(id % 7) / 7 as b")
    return frame.selectExpr("id", "float(a) as a", "float(b) as b", "float(2 * a - b + 1) as y")


def joined(spark: SparkSession, rows: int) -> DataFrame:
    """Returns a join of two shuffled halves of the columns."""
    whole = with_values(spark.range(1, rows + 1, 1, 3))
    left, right = whole.select("id", "a"), whole.select("id", "b", "y")
    return left.hint("shuffle_hash").join(right, "id")


def scattered(spark: SparkSession, rows: int) -> DataFrame:
    """Returns rows whose place is drawn anew each time."""
    return _drawn(spark, rows).repartition(5, "draw").drop("draw")


def jumbled(spark: SparkSession, rows: int) -> DataFrame:
    """Returns rows that are dealt out in turn, from an order that is drawn anew each time, and are then in another."""
    return _drawn(spark, rows).orderBy("draw").repartition(4).orderBy("draw").drop("draw")


def replanned(spark: SparkSession, rows: int, flag: str) -> DataFrame:
    """Returns a grouping whose partitions Spark coalesces until the file `flag` is there.

    It then gets what their number was and is.
    """
    advisory = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
    smallest = "spark.sql.adaptive.coalescePartitions.minPartitionSize"
    spark.conf.set("spark.sql.shuffle.partitions", "6")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
    spark.conf.set(advisory, "64m")
    frame = with_values(
        spark.range(1, rows + 1, 1, 3).selectExpr("id % 1000000 as id").groupBy("id").count().select("id")
    )
    before = frame.select("*").rdd.getNumPartitions()

    def change() -> None:
        while not os.path.exists(flag):
            time.sleep(_POLL_S)
        spark.conf.set(advisory, "1k")
        spark.conf.set(smallest, "1")
        Path(flag).write_text(f"{before} {frame.select('*').rdd.getNumPartitions()}")

    threading.Thread(target=change, daemon=True).start()
    return frame


def failing(spark: SparkSession, sizes: Sequence[int], at: int) -> DataFrame:
    """Returns rows of which that with the id `at` can never be computed."""

    def checked(i: int) -> int:
        return i if i != at else i // 0

    return _through(spark, sizes, sql.udf(checked, "bigint")(sql.col("id")))


def dividing(spark: SparkSession, sizes: Sequence[int], at: int) -> DataFrame:
    """Returns rows of which that with the id `at` fails in SQL."""
    return _through(spark, sizes, sql.expr(f"id + int(0 / (id - {at}))"))


def waiting(spark: SparkSession, sizes: Sequence[int], every: int, at: int, folder: str, after: int = 0) -> DataFrame:
    """Returns rows of which the one at `at` of `every` waits while `folder`/wait is there, and leaves its pid there.

    Args:
        after: Rows up to this one do not wait.
    """

    def checked(i: int) -> int:
        if i % every == at and i > after:
            Path(folder, f"pid-{os.getpid()}").touch()
            while os.path.exists(f"{folder}/wait"):
                time.sleep(_POLL_S)
        return i

    return _through(spark, sizes, sql.udf(checked, "bigint")(sql.col("id")))


def counted(spark: SparkSession, partitions: int, rows: int, folder: str) -> DataFrame:
    """Returns partitions of so many rows, each of which leaves a file in `folder` when its last row is computed."""

    def checked(i: int) -> int:
        if i % rows == 0:
            Path(folder, str(i)).touch()
        return i

    ids = spark.range(1, partitions * rows + 1, 1, partitions)
    return with_values(ids.select(sql.udf(checked, "bigint")(sql.col("id")).alias("id")))


def growing(spark: SparkSession, rows: int, flag: str) -> DataFrame:
    """Returns three partitions of which the second has a row more once the file `flag` is there."""
    third = rows // 3
    extra = third + (1 if os.path.exists(flag) else 0)
    return partitions(spark, [third, extra, third])


def with_null(spark: SparkSession, sizes: Sequence[int], at: int) -> DataFrame:
    """Returns rows of which that with the id `at` has no `a`."""
    return partitions(spark, sizes).selectExpr("id", f"if(id = {at}, null, a) as a", "b", "y")


def with_bad(spark: SparkSession, sizes: Sequence[int], no_a: Sequence[int], no_y: Sequence[int]) -> DataFrame:
    """Returns rows of which some have no `a`, and some a `y` that is no number."""
    a, y = sql.expr("null"), sql.lit(float("nan"))
    frame = partitions(spark, sizes)
    return frame.select(
        "id",
        sql.when(sql.col("id").isin(*no_a), a).otherwise(frame["a"]).alias("a"),
        "b",
        sql.when(sql.col("id").isin(*no_y), y).otherwise(frame["y"]).alias("y"),
    )


def _drawn(spark: SparkSession, rows: int) -> DataFrame:
    # rand() would not do: its seed is drawn but once for a DataFrame.
    draw = sql.udf(lambda: random.SystemRandom().random(), "double").asNondeterministic()
    return with_values(spark.range(1, rows + 1, 1, 3)).withColumn("draw", draw())


def _through(spark: SparkSession, sizes: Sequence[int], ids: Column) -> DataFrame:
    # Small batches, so that some of a partition has been sent when a later row fails.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    return partitions(spark, sizes).select(ids.alias("id"), "a", "b", "y")
