"""A DataFrame with one feeder that lags behind the others, as on a host that is slow."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .frames import with_values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PATIENCE_S = 180
_POLL_S = 0.05


def rows(spark: SparkSession, params: dict[str, Any]) -> DataFrame:
    """Returns six partitions. Of the second one the first two attempts wait until both are at work.

    Each attempt leaves a file <partition>-<attempt>-<host> in the folder `params["attempts"]`. For `data.source`.
    """
    folder = Path(params["attempts"])

    def lag(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("this is no task of Spark's")
        split, attempt = context.partitionId(), context.attemptNumber()
        (folder / f"{split}-{attempt}-{socket.gethostname()}").touch()
        deadline_s = time.monotonic() + _PATIENCE_S
        while split == 1 and attempt < 2 and not list(folder.glob(f"1-{1 - attempt}-*")):
            if time.monotonic() > deadline_s:
                raise TimeoutError("the other attempt has not begun")
            time.sleep(_POLL_S)
        yield from batches

    frame = with_values(spark.range(1, params["rows"] + 1, 1, 6))
    return frame.mapInArrow(lag, frame.schema)
