"""A DataFrame as files that tasks write by sparktf's own storage, where Spark has no writer of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sparktf.driver.spark.application import task_access
from sparktf.driver.spark.feeders import explained
from sparktf.executor.written_files import WRITTEN, WriterSettings, write_parquet, write_records
from sparktf.storage.base import Storage

_SUCCESS = "_SUCCESS"


def write_record_frame(df: DataFrame, storage: Storage, folder: str, *, compresses: bool) -> int:
    """Writes each row as a tensorflow.Example into a new folder, and `_SUCCESS`; returns the number of rows.

    Raises:
        BadValueError: no feature can hold a value.
        NodeLostError: executors were lost, or the storage failed.
    """
    return _write(df, storage, folder, partial(write_records, compresses=compresses), "writing TFRecord files")


def write_parquet_frame(df: DataFrame, storage: Storage, folder: str, doing: str) -> int:
    """Writes rows as Parquet files, with Spark's types, into a new folder, and `_SUCCESS`; returns their number.

    Args:
        doing: In words, for messages.

    Raises:
        NodeLostError: executors were lost, or the storage failed; also what computing the rows raises.
    """
    described = {
        b"org.apache.spark.version": spark_version.encode(),
        b"org.apache.spark.sql.parquet.row.metadata": df.schema.json().encode(),
    }
    return _write(df, storage, folder, partial(write_parquet, described=described), doing)


_Write = Callable[[Iterable[pa.RecordBatch], WriterSettings], Iterator[pa.RecordBatch]]


def _write(df: DataFrame, storage: Storage, folder: str, write: _Write, doing: str) -> int:
    settings = WriterSettings(folder, tuple(df.columns), task_access(df.sparkSession))

    def write_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write(batches, settings)

    # mapInArrow looks columns up by their names, and would take "user.age" for a field of a struct.
    plain = df.toDF(*(f"c{i}" for i in range(len(df.columns))))
    try:
        written = plain.mapInArrow(write_partition, WRITTEN).collect()
    except (PySparkException, Py4JError) as error:
        raise explained(error, doing) from error
    kept = {row.path for row in written}
    for entry in storage.list(folder) if written else ():
        if entry.path not in kept:  # of a task that was tried again, or ran twice
            storage.delete(entry.path)
    storage.make_dirs(folder)
    storage.write_bytes(f"{folder}/{_SUCCESS}", b"")
    return sum(row.rows for row in written)
