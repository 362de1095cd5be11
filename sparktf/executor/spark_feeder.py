"""The feeder as a Spark task: it computes one partition of a DataFrame and puts it into a node."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.feeder import FeederSettings, feed

FED = pa.schema(
    [
        ("split", pa.int32()),
        ("rows", pa.int64()),
        ("nbytes", pa.int64()),
        ("wire", pa.string()),
        ("host", pa.string()),
        ("seconds", pa.float64()),
    ]
)
"""What a feeder returns to Spark: one row."""


def feed_partition(batches: Iterable[pa.RecordBatch], settings: FeederSettings) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`: puts the partition into the node that has its lease."""
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("a feeder runs in a Spark task")
    started_s = time.monotonic()
    split = context.partitionId()
    sent = feed(split, iter(batches), settings)
    seconds = time.monotonic() - started_s
    yield pa.record_batch(
        [[split], [sent.rows], [sent.nbytes], [sent.wire], [socket.gethostname()], [seconds]], schema=FED
    )
