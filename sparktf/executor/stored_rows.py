"""Parquet files in Spark tasks: their rows, where Spark itself has no client for the store in which they lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from sparktf.errors import CorruptFileError
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.feed.formats.parquet_file import OpenFile, check_rows, differences, leaf_columns, open_file, reading
from sparktf.feed.formats.splits import repeated
from sparktf.sequence import FileStamp, PartitionValue
from sparktf.storage.file_systems import FileSystems

_BATCH_ROWS = 10_000
"""As many as Spark passes on at a time by default."""


class FilePiece(NamedTuple):
    """Row groups of a file that a task reads."""

    path: str
    groups: tuple[int, ...]
    stamp: FileStamp  # Of the file as the driver has found it
    values: tuple[PartitionValue, ...]  # Of the partition columns


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files that tasks read, in their closure."""

    pieces: tuple[FilePiece, ...]
    schema: pa.Schema  # As Spark expects it: the columns of the files, then the partition columns
    partition_types: Mapping[str, str]  # Partition column -> its Spark type
    access: TaskAccess


def stored_rows(numbers: Iterable[pa.RecordBatch], settings: StoredFiles) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`: reads the pieces whose numbers it gets.

    A column that a file lacks is null.

    Raises:
        CorruptFileError: a file is damaged, or has changed since the driver looked at it.
        StorageError: the storage failed.
    """
    file_systems = settings.access.file_systems()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from _rows_of(settings.pieces[number], settings, file_systems)


def _rows_of(piece: FilePiece, settings: StoredFiles, file_systems: FileSystems) -> Iterator[pa.RecordBatch]:
    file = open_file(file_systems.open(piece.path), piece.path)
    if file.entry is not None and (changed := differences(piece.stamp, file.entry, file.footer)):
        raise CorruptFileError(f"{piece.path} has changed since it was looked at ({changed})")
    names = [name for name in settings.schema.names if name not in settings.partition_types]
    there = frozenset(file.metadata.schema.to_arrow_schema().names).intersection(names)
    with file.parquet(coerce_int96_timestamp_unit="us", page_checksum_verification=True) as parquet:
        for group in piece.groups:
            table = _group(file, parquet, group, [name for name in names if name in there])
            yield from _as_spark_expects(table, piece, settings).to_batches(max_chunksize=_BATCH_ROWS)


def _group(file: OpenFile, parquet: pa.parquet.ParquetFile, group: int, names: list[str]) -> pa.Table:
    with reading(file.path):
        file.fetch(group, leaf_columns(file.metadata, frozenset(names)))
        try:
            table = parquet.read_row_group(group, columns=names, use_threads=False)
        finally:
            file.drop()
    check_rows(table, file.path, group, file.metadata)
    return table


def _as_spark_expects(table: pa.Table, piece: FilePiece, settings: StoredFiles) -> pa.Table:
    rows = table.num_rows
    found = dict(zip(table.column_names, table.columns, strict=True))
    kinds = zip(settings.partition_types.items(), piece.values, strict=True)
    found |= {name: pa.chunked_array([repeated(value, kind, rows)]) for (name, kind), value in kinds}
    columns = [
        found[field.name].cast(field.type) if field.name in found else pa.nulls(rows, field.type)
        for field in settings.schema
    ]
    return pa.table(columns, schema=settings.schema)
