"""The files at a path: data files, partition columns, footers. Reads no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from sparktf.driver.plan.features import ColumnType, Family, Schema, column_type, nearest
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.old_calendar import check_calendar
from sparktf.driver.plan.partitions import Partitions, read_partitions
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.driver.plan.tables import check_not_within, list_files
from sparktf.errors import (
    BadValueError,
    ColumnError,
    EmptySourceError,
    SourceNotFoundError,
    StorageNotFoundError,
)
from sparktf.feed.arrays.nested import column_of, leaf_types, prefixes, type_of
from sparktf.feed.arrays.untyped import has_untyped, is_untyped, merged_type
from sparktf.feed.arrays.vectors import plain_column
from sparktf.feed.formats.footer import columns_of, long_decimal
from sparktf.feed.formats.parquet_file import group_extent, leaf_columns, open_file, open_parquet, reading, rows_told
from sparktf.feed.formats.splits import partition_type
from sparktf.sequence import FileStamp, Integers
from sparktf.storage.base import FileEntry, Storage

FooterCheck = Callable[[str, pa.Schema, pq.FileMetaData], None]
"""(path, schema, footer) of a file; raises for an unsuitable file."""

_THREADS = 16
_Found = TypeVar("_Found")


def at_once(name: str, look: Callable[..., _Found], *each: Iterable[Any]) -> list[_Found]:
    """Returns a function's results for some files, from many threads: small reads mostly wait for the storage.

    Raises its first error, and skips the files that have not been begun.

    Args:
        name: Of the threads.
        each: The function's arguments for each file.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix=name) as pool:
        try:
            return list(pool.map(look, *each))
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Source:
    """Data files and their partition columns: those at a path, or of a DataFrame."""

    key: str  # The configuration key that names it
    path: str  # As configured; for a DataFrame, its name in messages
    files: tuple[str, ...]  # Paths of the files, sorted
    partitions: Partitions
    # int64 [n_files, 2], length and last change (`FileStamp`) of each file when listed; None if Spark listed them
    listed: npt.NDArray[np.int64] | None = None

    def select(self, chosen: Sequence[bool]) -> Source:
        """Returns the source with only some of the files; its partition columns keep their types."""
        files = tuple(file for file, keep in zip(self.files, chosen, strict=True) if keep)
        values = tuple(value for value, keep in zip(self.partitions.values, chosen, strict=True) if keep)
        partitions = replace(self.partitions, values=values)
        listed = None if self.listed is None else self.listed[np.array(chosen, np.bool_)]
        return replace(self, files=files, partitions=partitions, listed=listed)


class RowGroups(NamedTuple):
    """The row groups of some files, as columns: int64 [n_row_groups] each, empty row groups left out."""

    file: Integers  # Index of the file
    row_group: Integers  # Index in the file
    rows: Integers  # Rows that pass the source's filter
    nbytes: Integers  # Bytes of the used columns as they lie in the file
    start: Integers  # Offset in the file of the first of these columns
    stop: Integers  # Offset of the end of the last one
    group_rows: Integers  # Before the filter

    def take(self, chosen: npt.NDArray[np.bool_]) -> RowGroups:
        """Returns the chosen ones: bool [n_row_groups]."""
        return RowGroups(*(column[chosen] for column in self))


CAME_LATER = (
    "files from before the column existed can be left out by data.where, or read with nulls by data.mode: spark and "
    "spark.sql.parquet.mergeSchema: true under submit.conf"
)


def list_source(storage: Storage, path: str, key: str, reads: SparkReads) -> Source:
    """Lists the data files at a path: one file, or all below a folder except those that Spark ignores.

    Args:
        key: The configuration key of the path.
        reads: How Spark types the values in the names of folders.

    Raises:
        ConfigError: it is a table of another format, or holds one, or is within one.
        NotPlainError: Spark has a log of the files that belong to it.
        SourceNotFoundError: nothing is at the path.
        EmptySourceError: no file is below it.
        BadValueError: its partition folders do not agree, or have a column twice.
    """
    try:
        root = storage.stat(path)
    except StorageNotFoundError as error:
        raise SourceNotFoundError(f"{key}: {path} does not exist") from error
    check_not_within(storage, root.path, key)
    if not root.is_dir:
        return Source(key, path, (root.path,), Partitions((), (), ((),)), _listed([root]))
    entries = list_files(storage, root.path, key)
    if not entries:
        raise EmptySourceError(f"{key}: there are no data files in {path}")
    base = root.path.rstrip("/")
    partitions = read_partitions([entry.path[len(base) :].rpartition("/")[0] for entry in entries], reads)
    return Source(key, path, tuple(entry.path for entry in entries), partitions, _listed(entries))


def _listed(entries: Sequence[FileEntry]) -> npt.NDArray[np.int64]:
    return np.array([(entry.nbytes, entry.modified_ms) for entry in entries], np.int64).reshape(-1, 2)


def read_schema(
    storage: Storage, source: Source, reads: SparkReads, used: Callable[[str], bool] = lambda name: False
) -> dict[str, pa.DataType]:
    """Returns the Arrow types of all columns: those of the first file, in its order, then the partition columns.

    Args:
        used: Which columns need a type: if the first file has no value of one, the next file with a value decides.

    Raises:
        CorruptFileError: the first file's footer cannot be read.
    """
    path = source.files[0]
    schema = _schema_of(storage, path)
    partitions = source.partitions
    types = {name: partition_type(kind) for name, kind in zip(partitions.names, partitions.types, strict=True)}
    hidden = {reads.same(name) for name in types}
    # As in Spark, the folder's value counts where a file has a column of the same name.
    found = {field.name: field.type for field in schema if reads.same(field.name) not in hidden}
    return _with_types(storage, source.files[1:], found, used) | types


def lake_schema(
    storage: Storage, source: Source, reads: SparkReads, used: Callable[[str], bool], *, looks_in: bool = True
) -> Schema:
    """Returns the columns of Parquet files; see `read_schema`. `looks_in`: the first row may be read for a message."""
    types, first = read_schema(storage, source, reads, used), source.files[0]
    length = partial(first_length, storage, first) if looks_in else lambda column: None
    if len(source.files) == 1:
        return Schema(types, length, f" in {first}")
    return Schema(types, length, f" in {first}, the first of {len(source.files):,} files", CAME_LATER)


def _with_types(
    storage: Storage, paths: Sequence[str], found: dict[str, pa.DataType], used: Callable[[str], bool]
) -> dict[str, pa.DataType]:
    """Returns the types of columns; for those without a value so far, the types in the next files."""
    wanted = [name for name, kind in found.items() if has_untyped(kind) and used(name)]
    for first in range(0, len(paths), _THREADS):
        if not wanted:
            break
        for schema in at_once("schema", partial(_schema_of, storage), paths[first : first + _THREADS]):
            there = dict(zip(schema.names, schema.types, strict=False))
            found |= {name: merged_type(found[name], there.get(name)) for name in wanted}
        wanted = [name for name in wanted if has_untyped(found[name])]
    return found


def _schema_of(storage: Storage, path: str) -> pa.Schema:
    with open_parquet(storage, path) as file, reading(path):
        return columns_of(file)


def first_length(storage: Storage, path: str, column: str) -> int | None:
    """Returns the number of values in the first row of a list column (bytes, of a binary one); None without rows.

    Reads little more than that row.

    Raises:
        CorruptFileError: the file cannot be read.
    """
    with open_parquet(storage, path) as file, reading(path):
        for batch in file.iter_batches(batch_size=1, columns=[column]):
            found = column_of(dict(zip(batch.schema.names, pa.table(batch).columns, strict=True)), column)
            first = None if found is None else plain_column(found)[0]
            return None if first is None or not first.is_valid else len(first.as_py())
    return None


def read_row_groups(
    storage: Storage, source: Source, columns: frozenset[str], check: FooterCheck
) -> tuple[RowGroups, npt.NDArray[np.int64]]:
    """Reads the footers of all files, many at a time.

    Args:
        columns: The columns to read from the files.
        check: Checks each file's footer, in many threads; its errors are raised.

    Returns:
        The row groups, and of each file its `FileStamp`: int64 [n_files, 3].

    Raises:
        CorruptFileError: a file's footer cannot be read.
    """
    read = partial(_row_groups_of, storage, columns, check)
    listed: Iterable[Sequence[int] | None] = [None] * len(source.files) if source.listed is None else source.listed
    found = at_once("footer", read, source.files, listed)
    table = np.concatenate([np.insert(table, 0, i, axis=1) for i, (table, _) in enumerate(found)])
    file, row_group, rows, nbytes, start, stop = np.ascontiguousarray(table[table[:, 2] > 0].T)
    stamps = np.array([stamp for _, stamp in found], np.int64).reshape(-1, 3)
    return RowGroups(file, row_group, rows, nbytes, start, stop, group_rows=rows), stamps


def _row_groups_of(
    storage: Storage, columns: frozenset[str], check: FooterCheck, path: str, listed: Sequence[int] | None
) -> tuple[npt.NDArray[np.int64], FileStamp]:
    """Returns int64 [n_row_groups, 5]: row group, rows, bytes, start and stop in the file; and the file's stamp."""
    if listed is None:
        # Before the footer is read: so a change in between is detected later.
        entry = storage.stat(path)
        listed = (entry.nbytes, entry.modified_ms)
    file = open_file(storage, path)
    stamp = FileStamp(int(listed[0]), int(listed[1]), file.footer)
    with file.parquet() as parquet, reading(path):
        schema, metadata = parquet.schema_arrow, parquet.metadata
        # All that will be asked of the footer is asked here: what is damaged in it may come out at any question.
        check(path, schema, metadata)
        leaves = leaf_columns(metadata, columns)
        groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
        found = [(i, rows_told(path, group, leaves), *group_extent(group, leaves)) for i, group in enumerate(groups)]
    return np.array(found, np.int64).reshape(-1, 5), stamp


def doubled(schema: pa.Schema, used: Iterable[str], reads: SparkReads) -> str:
    """Returns the used columns, or fields of theirs, that a file has twice, for a sentence's end; "" if none."""
    wanted = {prefix for name in used for prefix in prefixes(name)}
    roots = {reads.same(name) for name in schema.names if name in wanted}
    return next(
        (found for field in schema if reads.same(field.name) in roots and (found := _doubled(field.type, reads))),
        _twice([name for name in schema.names if reads.same(name) in roots], reads),
    )


def _doubled(kind: pa.DataType, reads: SparkReads) -> str:
    fields = [kind.field(i) for i in range(kind.num_fields)] if pt.is_struct(kind) else []
    below = (found for field in fields if (found := _doubled(field.type, reads)))
    return _twice([field.name for field in fields], reads) or next(below, "")


def _twice(names: Iterable[str], reads: SparkReads) -> str:
    seen: dict[str, str] = {}
    for name in names:
        same = reads.same(name)
        if same in seen:
            return (
                f"two columns called {name!r}"
                if seen[same] == name
                else (f"columns {seen[same]!r} and {name!r}, which Spark takes for one (spark.sql.caseSensitive)")
            )
        seen[same] = name
    return ""


def check_file(
    types: Mapping[str, ColumnType],
    reads: SparkReads,
    untyped: set[str],
    path: str,
    schema: pa.Schema,
    metadata: pq.FileMetaData,
) -> None:
    """Checks that a file has the columns of the others, each once, in today's calendar.

    Bind all but the last three arguments to get a `FooterCheck`.

    Args:
        untyped: Takes the columns that the file has no value of, and so no type.

    Raises:
        ColumnError: it lacks a column, or has it twice.
        BadValueError: a column has another type.
        NotPlainError: Spark converts dates or timestamps of the file.
    """
    if twice := doubled(schema, types, reads):
        raise ColumnError(f"{path} has {twice}")
    fields = {field.name: field.type for field in schema}
    for name, wanted in types.items():
        found = type_of(fields, name)
        if found is None:
            like = nearest(name, leaf_types(fields))
            raise ColumnError(f"{path} has no column {name!r}, which other files have{like}; {CAME_LATER}")
        if is_untyped(found):
            untyped.add(name)
            continue
        kind = column_type(found)
        if kind.spark != wanted.spark:
            raise BadValueError(f"{path}: column {name!r} is of type {kind.spark}, but {wanted.spark} in other files")
    if any(kind.family is Family.DECIMAL for kind in types.values()):
        check_decimals(path, metadata, frozenset(types))
    check_calendar(path, metadata, frozenset(types), reads)


def check_decimals(path: str, metadata: pq.FileMetaData, columns: frozenset[str]) -> None:
    """Checks that Arrow reads all decimals of some columns. Raises `NotPlainError` if it does not."""
    if reason := long_decimal(metadata, columns):
        raise NotPlainError(f"{path} cannot be read by trainers: {reason}")
