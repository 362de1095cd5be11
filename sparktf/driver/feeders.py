"""The Spark job that feeds a DataFrame to the nodes: `mapInArrow`, beside the agents' job in the same application."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sparktf.errors import DataError, NodeLostError, SparkTFError
from sparktf.executor.feeder import FeederSettings
from sparktf.executor.spark_feeder import feed_partition

_FED = "split int, rows bigint, nbytes bigint, wire string, host string, seconds double"

_GONE = (Py4JError, OSError)

_OUR_ERRORS = "sparktf.errors."
_LOST = (
    "ExecutorLostFailure",
    "FetchFailed",
    "Python worker exited unexpectedly",
    "cancelled",
    "SparkContext was shut down",
)


class SparkFeeders:
    """Feeds one stream in one epoch, on a thread of its own."""

    def __init__(self, data: DataFrame, settings: FeederSettings) -> None:
        """Starts the job."""
        self._data = data
        self._settings = settings
        self._context = data.sparkSession.sparkContext
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

        def feed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return feed_partition(batches, settings)

        try:
            what = f"sparktf feeds {settings.stream}, epoch {settings.epoch}"
            self._context.setJobGroup(self._group, what, interruptOnCancel=True)
            self._splits = len(self._data.mapInArrow(feed, _FED).collect())
        except (*_GONE, PySparkException) as e:
            self._error = _explained(e)


def _explained(error: Exception) -> SparkTFError:
    """Returns what Spark's failure means: what was lost is tried again, anything else is the data's fault."""
    try:
        text = str(error)
    except _GONE:  # py4j asks the JVM for the text
        return NodeLostError("the JVM that fed the DataFrame is gone")
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    ours = next((line.partition(_OUR_ERRORS)[2] for line in lines if _OUR_ERRORS in line), None)
    if ours is not None:
        return NodeLostError(f"feeding the DataFrame failed: {ours.partition(': ')[2] or ours}")
    if any(sign in text for sign in _LOST):
        return NodeLostError(f"feeding the DataFrame failed: {_telling(lines)}")
    return DataError(f"Spark cannot compute the DataFrame: {_telling(lines)}")


def _telling(lines: list[str]) -> str:
    """Returns the line that says most: the innermost error of a Python function, else Spark's first."""
    python = [
        line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and " " not in line.split(":")[0]
    ]
    return (python[-1] if python else lines[0])[:500]
