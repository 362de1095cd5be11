"""Writes a partition of a DataFrame as a file, TFRecord or Parquet, within a Spark task."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.executor.spark_stream import whole
from sparktf.feed.formats.example_writer import record_bytes

WRITTEN = "path string, rows bigint"
"""Schema of a task's answer to Spark about its file."""

_GROUP_NBYTES = 64 << 20
"""Bytes in memory that become a row group."""

_WriteFile: TypeAlias = Callable[[Path, Iterable[pa.RecordBatch]], int]
"""(local file, batches) -> rows written."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The writer's settings in the task's closure: folder of the files, and names of the columns in order."""

    folder: str
    names: tuple[str, ...]
    access: TaskAccess


def write_records(
    batches: Iterable[pa.RecordBatch], settings: WriterSettings, *, compresses: bool
) -> Iterator[pa.RecordBatch]:
    """A function of Spark's `mapInArrow`. A partition without rows gets no file.

    Raises:
        BadValueError: no feature can hold a value.
        LifecycleError: this is no Spark task.
        StorageError: the storage failed.
    """
    write = partial(_records, names=settings.names, compresses=compresses)
    return _written(batches, settings, f".tfrecord{'.gz' if compresses else ''}", write)


def write_parquet(
    batches: Iterable[pa.RecordBatch], settings: WriterSettings, *, described: Mapping[bytes, bytes]
) -> Iterator[pa.RecordBatch]:
    """A function of Spark's `mapInArrow`. A partition without rows gets no file.

    Args:
        described: What the files' metadata say, as those that Spark writes.

    Raises:
        LifecycleError: this is no Spark task.
        StorageError: the storage failed.
    """
    write = partial(_parquet, names=settings.names, described=described)
    return _written(batches, settings, ".snappy.parquet", write)


def _written(
    batches: Iterable[pa.RecordBatch], settings: WriterSettings, suffix: str, write: _WriteFile
) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("files can only be written in a Spark task")
    # A name for each attempt of a task: the driver deletes the files of failed and speculative ones.
    name = f"part-{context.partitionId():05d}-{context.taskAttemptId()}{suffix}"
    with tempfile.TemporaryDirectory(prefix="sparktf-records-") as folder:
        local = Path(folder, name)
        rows = write(local, whole(batches))
        if not rows:
            return
        path = f"{settings.folder}/{name}"
        settings.access.file_systems().open(path).upload(local, path)
    yield pa.RecordBatch.from_pylist([{"path": path, "rows": rows}])


def _records(local: Path, batches: Iterable[pa.RecordBatch], *, names: tuple[str, ...], compresses: bool) -> int:
    rows = 0
    with ExitStack() as stack:
        file = stack.enter_context(local.open("wb"))
        sink = stack.enter_context(GzipFile(fileobj=file, mode="wb", mtime=0)) if compresses else file
        for batch in batches:
            cast(BinaryIO, sink).write(record_bytes(batch.rename_columns(names)))
            rows += batch.num_rows
    return rows


def _parquet(
    local: Path, batches: Iterable[pa.RecordBatch], *, names: tuple[str, ...], described: Mapping[bytes, bytes]
) -> int:
    rows, held = 0, list[pa.RecordBatch]()
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for batch in batches:
            if writer is None:
                schema = batch.rename_columns(names).schema.with_metadata(dict(described))
                writer = stack.enter_context(pq.ParquetWriter(local, schema, compression="snappy"))
            held.append(batch.rename_columns(names).replace_schema_metadata(dict(described)))
            rows += batch.num_rows
            if sum(one.nbytes for one in held) >= _GROUP_NBYTES:
                writer.write_table(pa.Table.from_batches(held))
                held = []
        if held and writer is not None:
            writer.write_table(pa.Table.from_batches(held))
    return rows
