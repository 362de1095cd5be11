"""Writes a partition of a DataFrame as a TFRecord file, within a Spark task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.executor.spark_stream import whole
from sparktf.feed.formats.example_writer import record_bytes

WRITTEN = "path string, rows bigint"
"""Schema of a task's answer to Spark about its file."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The writer's settings in the task's closure: folder of the files, and names of the columns in order."""

    folder: str
    names: tuple[str, ...]
    compresses: bool
    access: TaskAccess


def write_records(batches: Iterable[pa.RecordBatch], settings: WriterSettings) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`. A partition without rows gets no file.

    Raises:
        BadValueError: no feature can hold a value.
        LifecycleError: this is no Spark task.
        StorageError: the storage failed.
    """
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("records can only be written in a Spark task")
    # A name for each attempt of a task: the driver deletes the files of failed and speculative ones.
    attempt = context.taskAttemptId()
    name = f"part-{context.partitionId():05d}-{attempt}.tfrecord{'.gz' if settings.compresses else ''}"
    rows = 0
    with tempfile.TemporaryDirectory(prefix="sparktf-records-") as folder, ExitStack() as stack:
        local = Path(folder, name)
        file = stack.enter_context(local.open("wb"))
        sink = stack.enter_context(GzipFile(fileobj=file, mode="wb", mtime=0)) if settings.compresses else file
        for batch in whole(batches):
            cast(BinaryIO, sink).write(record_bytes(batch.rename_columns(settings.names)))
            rows += batch.num_rows
        stack.close()
        if not rows:
            return
        path = f"{settings.folder}/{name}"
        settings.access.file_systems().open(path).upload(local, path)
    yield pa.RecordBatch.from_pylist([{"path": path, "rows": rows}])
