"""The feeder as a Spark task: it computes one partition of a DataFrame or RDD and puts it into a node."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.feeder import FeederSettings, feed
from sparktf.executor.rows import to_batches
from sparktf.executor.spark_stream import whole

FED = "split bigint, rows bigint, nbytes bigint, wire string, host string, seconds double"
"""What a feeder returns to Spark: one row."""


class Fed(NamedTuple):
    """What became of one partition; the fields of `FED`.

    Attributes:
        wire: "unix" or "tcp"; "" where its node had it already.
        seconds: From the lease to the node's word that it has all.
    """

    split: int
    rows: int
    nbytes: int
    wire: str
    host: str
    seconds: float


def feed_partition(batches: Iterable[pa.RecordBatch], settings: FeederSettings) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`: puts the partition into the node that has its lease."""
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("a feeder runs in a Spark task")
    fed = _timed(context.partitionId(), iter(batches), settings)
    yield pa.RecordBatch.from_pylist([fed._asdict()])


def feed_rows(
    split: int, rows: Iterable[Any], settings: FeederSettings, schema: pa.Schema, names: Sequence[str]
) -> Iterator[Fed]:
    """The function of an RDD's `mapPartitionsWithIndex`; see `sparktf.executor.rows.to_batches`."""
    yield _timed(split, to_batches(rows, schema, names, split), settings)


def _timed(split: int, batches: Iterator[pa.RecordBatch], settings: FeederSettings) -> Fed:
    started_s = time.monotonic()
    sent = feed(split, whole(batches), settings)
    return Fed(split, sent.rows, sent.nbytes, sent.wire, socket.gethostname(), time.monotonic() - started_s)
