"""The Spark job that feeds a stream to the nodes, beside the agents' job in the same application."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import RDD, InheritableThread, SparkContext
from pyspark.sql import DataFrame

from sparktf.driver.spark.executor_python import unfit_python
from sparktf.errors import DataError, ModelContractError, ModelError, NodeLostError, SparkTFError, error_class
from sparktf.executor.feeder import FeederSettings
from sparktf.executor.spark_feeder import FED, feed_partition, feed_rows

_GONE = (Py4JError, OSError)

_OURS = "sparktf.errors."
_LOST = (
    "ExecutorLostFailure",
    "FetchFailed",
    "Python worker exited unexpectedly",
    "cancelled",
    "SparkContext was shut down",
)


class SparkRows(Protocol):
    """The rows that feeders compute."""

    @property
    def context(self) -> SparkContext: ...

    def feed(self, settings: FeederSettings) -> int:
        """Runs the job to its end; returns the number of partitions."""


class FrameRows:
    """The rows of a DataFrame."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def context(self) -> SparkContext:
        return self._frame.sparkSession.sparkContext

    def feed(self, settings: FeederSettings) -> int:
        """See `SparkRows`."""
        names = self._frame.columns
        # mapInArrow looks columns up by their names, and would take "user.age" for a field of a struct.
        plain = self._frame.toDF(*(f"c{i}" for i in range(len(names))))

        def feed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return feed_partition((batch.rename_columns(names) for batch in batches), settings)

        return len(plain.mapInArrow(feed, FED).collect())


class RddRows:
    """The rows of an RDD."""

    def __init__(self, rows: RDD[Any], schema: pa.Schema, names: Sequence[str]) -> None:
        """Takes the fields of `schema` out of rows that have all of `names`."""
        self._rows = rows
        self._schema = schema
        self._names = tuple(names)

    @property
    def context(self) -> SparkContext:
        return self._rows.context

    def feed(self, settings: FeederSettings) -> int:
        """See `SparkRows`."""
        feed = partial(feed_rows, settings=settings, schema=self._schema, names=self._names)
        return len(self._rows.mapPartitionsWithIndex(feed).collect())


class SparkFeeders:
    """Feeds one stream in one epoch, on a thread of its own."""

    def __init__(self, stream: SparkRows, settings: FeederSettings, on_end: Callable[[], None]) -> None:
        """Starts the job; calls `on_end` from another thread when the value of `splits` changes."""
        self._on_end = on_end
        self._stream = stream
        self._settings = settings
        self._context = stream.context
        self._group = f"sparktf-feeders-{uuid.uuid4().hex[:8]}"
        self._splits: int | None = None
        self._error: SparkTFError | None = None
        self._thread = InheritableThread(target=self._run, name="feeders", daemon=True)
        self._thread.start()

    def splits(self) -> int | None:
        """See `Feeders`."""
        if self._error is not None:
            raise self._error
        return self._splits

    def cancel(self) -> None:
        """See `Feeders`."""
        with suppress(*_GONE):
            self._context.cancelJobGroup(self._group)

    def _run(self) -> None:
        settings = self._settings
        try:
            what = f"sparktf feeds {settings.stream}, epoch {settings.epoch}"
            self._context.setJobGroup(self._group, what, interruptOnCancel=True)
            self._splits = self._stream.feed(settings)
        except Exception as e:  # noqa: BLE001 - the end of a thread: `splits` raises it where it is waited for
            self._error = explained(e)
        self._on_end()


def explained(error: Exception, doing: str = "feeding the data") -> SparkTFError:
    """Returns the error of ours for Spark's failure.

    Losses are tried again; executors whose Python lacks a module are refused; anything else is the data's fault.
    """
    try:
        text = str(error)
    except _GONE:  # py4j asks the JVM for the text
        return NodeLostError("the JVM that fed the data is gone")
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    ours = next((line.partition(_OURS)[2] for line in lines if _OURS in line), None)
    if ours is not None:
        name, _, message = ours.partition(": ")
        kind = error_class(name)
        if kind is not None and issubclass(kind, (DataError, ModelContractError, ModelError)):
            return kind(message)
        return NodeLostError(f"{doing} failed: {message or name}")
    if (unfit := unfit_python(error)) is not None:
        return unfit
    if any(sign in text for sign in _LOST):
        return NodeLostError(f"{doing} failed: {_telling(lines)}")
    return DataError(f"Spark cannot compute the data: {_telling(lines)}")


def _telling(lines: list[str]) -> str:
    """Returns the most informative line: the innermost error of a Python function, else Spark's first."""
    python = [line for line in lines if _is_error(line.partition(":")[0])]
    return (python[-1] if python else lines[0])[:500]


def _is_error(name: str) -> bool:
    return name.endswith(("Error", "Exception")) and name.replace(".", "").isalnum()
