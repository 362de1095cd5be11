"""Writes a DataFrame as TFRecord files, which appear all at once or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Literal

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sparktf.driver.spark.application import file_systems_of, task_access
from sparktf.driver.spark.feeders import explained
from sparktf.errors import ConfigError
from sparktf.executor.written_records import WRITTEN, WriterSettings, write_records
from sparktf.storage.base import Storage
from sparktf.storage.transactions.replaced_folder import ReplacedFolder

_SUCCESS = "_SUCCESS"
_MODES = ("error", "errorifexists", "overwrite")
_CODECS = (None, "none", "gzip")


def write(
    df: DataFrame,
    path: str,
    *,
    mode: Literal["error", "errorifexists", "overwrite"] = "error",
    compression: Literal["none", "gzip"] | None = None,
) -> int:
    """Writes each row as a tensorflow.Example, a file for each partition; returns the number of rows.

    Integers and truth values become Int64List; floats, doubles, decimals and vectors FloatList (of 32 bits); texts and
    bytes BytesList. An array has several values, and a null is a feature that the record lacks.

    Args:
        path: A folder. Its files and `_SUCCESS` appear once all are written; readers of Spark's see none before.
        mode: For an existing folder: "error" refuses it, "overwrite" replaces it once all is written, and restores it
            if that fails.
        compression: "gzip", or none.

    Raises:
        ConfigError: the folder exists, or `mode` or `compression` is unknown.
        BadValueError: a column is of a type that no feature has, or a list holds a null.
        StorageError: the storage failed.
    """
    if mode not in _MODES or compression not in _CODECS:
        raise ConfigError(f"mode must be one of {', '.join(_MODES)}, and compression none or gzip")
    spark = df.sparkSession
    file_systems = file_systems_of(spark)
    path = file_systems.normalise(path).rstrip("/")
    storage = file_systems.open(path)
    folder = ReplacedFolder(storage, path)
    folder.tidy(time.time())
    if mode != "overwrite" and storage.exists(path):
        raise ConfigError(f'{path} exists already: pass mode="overwrite" to replace it')
    with folder.staged() as aside:
        settings = WriterSettings(aside, tuple(df.columns), compression == "gzip", task_access(spark))
        rows = _write_all(df, storage, settings)
        folder.put(aside, replaces=mode == "overwrite")
    return rows


def _write_all(df: DataFrame, storage: Storage, settings: WriterSettings) -> int:
    """Writes all partitions into a new folder, and `_SUCCESS`; returns the number of rows."""

    def write_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_records(batches, settings)

    # mapInArrow looks columns up by their names, and would take "user.age" for a field of a struct.
    plain = df.toDF(*(f"c{i}" for i in range(len(df.columns))))
    try:
        written = plain.mapInArrow(write_partition, WRITTEN).collect()
    except (PySparkException, Py4JError) as error:
        raise explained(error, "writing TFRecord files") from error
    kept = {row.path for row in written}
    for entry in storage.list(settings.folder) if written else ():
        if entry.path not in kept:  # of a task that was tried again, or ran twice
            storage.delete(entry.path)
    storage.make_dirs(settings.folder)
    storage.write_bytes(f"{settings.folder}/{_SUCCESS}", b"")
    return sum(row.rows for row in written)
