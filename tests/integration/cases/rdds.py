"""RDDs of the columns id, other (which is -id), a, b and y: what users feed, and what goes wrong in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

SCHEMA = "id bigint, other bigint, a float, b float, y float"
NESTED = "who struct<id: bigint, other: bigint, x: struct<a: float, b: float>>, y float"


def rows(
    spark: SparkSession, sizes: Sequence[int], kind: str, at: int = 0, column: str = "", value: Any = None
) -> RDD[Any]:
    """Returns a partition of each size with ids from 1 on, as "dicts", "tuples" or "rows", which are in another order.

    Args:
        at: The id of a row with another value in a column.
    """
    from pyspark.sql import Row

    firsts = [1 + sum(sizes[:i]) for i in range(len(sizes))]

    def partition(i: int) -> Iterator[Any]:
        for number in range(firsts[i], firsts[i] + sizes[i]):
            a, b = number % 11 / 11, number % 7
            row = {"id": number, "other": -number, "a": a, "b": b, "y": 2 * a - b + 1}
            if number == at:
                row[column] = value
            if kind == "tuples":
                yield tuple(row.values())
            else:
                yield row if kind == "dicts" else Row(**dict(reversed(row.items())))

    return spark.sparkContext.parallelize(range(len(sizes)), len(sizes)).flatMap(partition)


def failing_once(spark: SparkSession, sizes: Sequence[int], raises: int, exits: int, folder: str) -> RDD[Any]:
    """Returns "rows" of which two fail when they are computed first: one raises, and one ends the worker."""

    def checked(row: Any) -> Any:
        flag = Path(folder, f"failed-{row.id}")
        if row.id in (raises, exits) and not flag.exists():
            flag.touch()
            if row.id == exits:
                os._exit(9)
            raise ValueError("the first try fails")
        return row

    return rows(spark, sizes, "rows").map(checked)


def nested(spark: SparkSession, sizes: Sequence[int]) -> RDD[Any]:
    """Returns Rows within Rows, with their fields in another order than the schema has them."""
    from pyspark.sql import Row

    def around(row: Any) -> Any:
        return Row(y=row.y, who=Row(x=Row(b=row.b, a=row.a), other=row.other, id=row.id))

    return rows(spark, sizes, "rows").map(around)


def source(spark: SparkSession, params: dict[str, Any]) -> RDD[Any]:
    """Returns tuples; for `data.source`."""
    return rows(spark, params["sizes"], "tuples")


def unsendable(spark: SparkSession, sizes: Sequence[int]) -> RDD[Any]:
    """Returns rows by a function that cannot be sent to executors: it holds a lock."""
    lock = threading.Lock()

    def locked(row: Any) -> Any:
        with lock:
            return row

    return rows(spark, sizes, "tuples").map(locked)
