"""TFRecord files in Spark tasks: their records as rows, and the index of their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparktf.errors import BadValueError
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.feed.arrays.arrow_types import is_list
from sparktf.feed.formats.example_columns import example_columns
from sparktf.feed.formats.record_file import RecordGroup, group_records, stream_records
from sparktf.feed.formats.record_types import record_type
from sparktf.feed.formats.splits import repeated
from sparktf.sequence import PartitionValue
from sparktf.storage.file_systems import FileSystems

_NBYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """The files and their types in the task's closure."""

    files: tuple[str, ...]
    types: Mapping[str, str]  # Feature -> Spark's type of its column, in the order of the columns
    partition_types: Mapping[str, str]  # Partition column -> its Spark type; these columns come last
    partition_values: tuple[tuple[PartitionValue, ...], ...]  # Their values for each file
    access: TaskAccess


def record_rows(numbers: Iterable[pa.RecordBatch], settings: RecordFiles) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`: reads the files whose numbers it gets.

    Raises:
        DataError: a file is damaged, or a feature does not fit its column; the message names file and row.
        StorageError: the storage failed.
    """
    file_systems = settings.access.file_systems()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from _rows_of(settings, number, file_systems)


def _rows_of(settings: RecordFiles, number: int, file_systems: FileSystems) -> Iterator[pa.RecordBatch]:
    path, values = settings.files[number], settings.partition_values[number]
    types = {name: record_type(kind) for name, kind in settings.types.items()}
    before = 0

    def refuse(row: int, name: str, reason: str) -> None:
        column = f"column {name!r}, " if name else ""
        raise BadValueError(f"{path}: {column}row {before + row}: {reason}")

    for records in stream_records(file_systems.open(path), path, _NBYTES):
        n = len(records.starts)
        columns = {name: _listed(column) for name, column in example_columns(records, types, refuse).items()}
        kinds = zip(settings.partition_types.items(), values, strict=True)
        columns |= {name: pa.chunked_array([repeated(value, kind, n)]) for (name, kind), value in kinds}
        yield from pa.table(columns).to_batches() if columns else ()
        before += n


def _listed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns lists with 32-bit offsets, which Spark requires."""
    return column.cast(pa.list_(column.type.value_type)) if is_list(column.type) else column


def index_records(paths: Sequence[str], nbytes: int, access: TaskAccess) -> list[list[RecordGroup]]:
    """Returns the groups of records of some files. Raises what `group_records` does."""
    file_systems = access.file_systems()
    return [group_records(file_systems.open(path), path, nbytes) for path in paths]
