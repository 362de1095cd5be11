"""The feeder as a Spark task: it computes one partition of a DataFrame or RDD, and sends it to a node."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.feeder import FeederSettings, feed
from sparktf.executor.rows import to_batches
from sparktf.executor.spark_stream import whole

FED = "split bigint"
"""Schema of the one row that a feeder returns, for the driver to count partitions; the nodes report the rows."""


def feed_partition(batches: Iterable[pa.RecordBatch], settings: FeederSettings) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`: sends the partition to its node.

    Raises:
        LifecycleError: this is no Spark task.
    """
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("a feeder can only be started in a Spark task")
    _leave_modules_alone()
    split = context.partitionId()
    feed(split, whole(batches), settings)
    yield pa.RecordBatch.from_pylist([{"split": split}])


def feed_rows(
    split: int, rows: Iterable[Any], settings: FeederSettings, schema: pa.Schema, names: Sequence[str]
) -> Iterator[int]:
    """The function of an RDD's `mapPartitionsWithIndex`; see `sparktf.executor.rows.to_batches`."""
    _leave_modules_alone()
    feed(split, whole(to_batches(rows, schema, names, split)), settings)
    yield split


@functools.cache
def _leave_modules_alone() -> None:
    """Exempts all objects so far from Python's garbage collector, once in a Python worker.

    The rows of an RDD are thousands of objects, after which it would scan everything imported, and PySpark lets it do
    so after each task. Both took a third of a feeder's time.
    """
    gc.freeze()
