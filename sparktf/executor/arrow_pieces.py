"""Rows of a DataFrame as bytes: a partition's record batches travel to the driver without becoming Python's objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparktf.executor.spark_stream import whole

ROWS = "rows"
"""The only column: a record batch each, as an Arrow stream."""


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`."""
    for batch in whole(batches):
        if batch.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.record_batch({ROWS: pa.array([sink.getvalue().to_pybytes()], pa.binary())})
