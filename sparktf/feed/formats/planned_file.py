"""A planned Parquet file that a reader keeps open: exactly the file that was planned, or an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from sparktf.errors import CorruptFileError, SourceNotFoundError, StorageNotFoundError
from sparktf.feed.arrays.columns import Array
from sparktf.feed.arrays.nested import column_of, prefixes
from sparktf.feed.formats.once_opened import OnceOpened
from sparktf.feed.formats.parquet_file import (
    OpenFile,
    check_rows,
    differences,
    group_nbytes,
    leaf_columns,
    open_once,
    reading,
)
from sparktf.sequence import Split
from sparktf.storage.base import FileEntry, Storage

_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_DELTAS = frozenset({"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})


_INT96 = "INT96"
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The years 1 to 9999."""


_Times = tuple[pa.Array, Array]
"""Timestamps, and the row of each."""


def _times(column: pa.ChunkedArray) -> list[_Times]:
    """Returns the timestamps of a column, also within structs and lists."""
    return list(_times_within(column.combine_chunks(), np.arange(len(column))))


def _times_within(values: pa.Array, rows: Array) -> Iterator[_Times]:
    if pt.is_timestamp(values.type):
        yield values.cast(pa.int64()), rows
    elif pt.is_struct(values.type):
        for field in values.flatten():
            yield from _times_within(field, rows)
    elif pt.is_list(values.type) or pt.is_large_list(values.type):
        yield from _times_within(pc.list_flatten(values), rows[pc.list_parent_indices(values).to_numpy()])


def _has_odd_years(column: pa.ChunkedArray) -> bool:
    ends = (pc.min_max(times).as_py() for times, _ in _times(column))
    return any(e["min"] is not None and (e["min"] < _FIRST_US or e["max"] >= _LAST_US) for e in ends)


def _counts(times: pa.Array) -> Array:
    counts: Array = pc.fill_null(times, 0).to_numpy()
    return counts


def _apart(micros: pa.ChunkedArray, millis: pa.ChunkedArray) -> Iterator[int]:
    """Yields the rows whose timestamps differ between microseconds and milliseconds."""
    found: set[int] = set()
    for (fine, rows), (coarse, _) in zip(_times(micros), _times(millis), strict=True):
        found.update(rows[abs(_counts(fine) // 1000 - _counts(coarse)) > 1].tolist())
    yield from sorted(found)


def _columns_by_name(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


class PlannedFile:
    """Reads row groups of one file.

    Attributes:
        metadata: Its footer.
    """

    def __init__(
        self,
        storage: Storage,
        split: Split,
        columns: frozenset[str],
        texts: Sequence[str],
        opened: OnceOpened[OpenFile] | None = None,
    ) -> None:
        """Opens the file.

        Args:
            split: Any split of the file.
            columns: Columns to read, by their names in the file.
            texts: Columns among them that may be read as dictionaries.
            opened: Files that other readers have opened.

        Raises:
            SourceNotFoundError: it is gone.
            CorruptFileError: it is not Parquet, or not the planned file.
            StorageError: the file system failed.
        """
        self._storage = storage
        self._columns = sorted(columns)
        try:
            self._file = open_once(storage, split.path, OnceOpened() if opened is None else opened)
            self.metadata = self._file.metadata
            # Checked after opening, so that a replacement before that is noticed.
            self._check_stamp(split, self._file.footer, self._file.entry)
        except StorageNotFoundError as error:
            raise SourceNotFoundError(
                f"{split.path} was deleted after the plan was made: of a table, VACUUM and expire_snapshots remove "
                "files of older versions; keep them for longer, and use another --run-id"
            ) from error
        self._leaves = leaf_columns(self.metadata, columns)
        columns_there = {leaf: self.metadata.schema.column(leaf) for leaf in self._leaves}
        self._paths = {column.path: leaf for leaf, column in columns_there.items()}
        times = [column.path for column in columns_there.values() if column.physical_type == _INT96]
        self._int96 = [name for name in self._columns if any(name in prefixes(path) for path in times)]
        self._texts = {name: self._paths[name] for name in texts if name in self._paths}
        self._readers: dict[tuple[str, ...], pq.ParquetFile] = {}

    def check_shape(self, split: Split) -> None:
        """Checks that a row group has the planned rows and bytes.

        Raises:
            CorruptFileError: it has others.
        """
        if split.row_group < self.metadata.num_row_groups:
            group = self.metadata.row_group(split.row_group)
            if (group.num_rows, group_nbytes(group, self._leaves)) == (split.group_rows, split.nbytes):
                return
        raise CorruptFileError(f"{split.path} has changed since it was planned (row group {split.row_group})")

    def read(self, row_group: int, *, use_threads: bool, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the columns of a row group, by default all columns to read; call `check_read` afterwards.

        Raises:
            CorruptFileError: it is damaged.
            StorageError: the file system failed.
        """
        with reading(self._file.path):
            reader = self._reader(self._dictionaries(row_group))
            chosen = list(self._columns if columns is None else columns)
            # Structs without a value, whose fields are wanted.
            chosen += [path for path in self._paths if any(name.startswith(f"{path}.") for name in chosen)]
            leaves = self._leaves if columns is None else leaf_columns(self.metadata, frozenset(chosen))
            self._file.fetch(row_group, leaves)
            try:
                table = reader.read_row_group(row_group, columns=chosen, use_threads=use_threads)
            finally:
                self._file.drop()
        check_rows(table, self._file.path, row_group, self.metadata)
        return table

    def beyond(self, row_group: int, table: pa.Table) -> list[tuple[int, str]]:
        """Returns rows and columns whose INT96 timestamps overflow microseconds in 64 bits: Arrow wraps them silently.

        Raises:
            CorruptFileError: the row group is damaged.
            StorageError: the file system failed.
        """
        # Wrapped timestamps hardly ever fall into plausible years, and never all of them.
        there = _columns_by_name(table)
        times = {name: column for name in self._int96 if (column := column_of(there, name)) is not None}
        odd = [name for name, column in times.items() if _has_odd_years(column)]
        if not odd:
            return []
        with reading(self._file.path):
            coarse = self._file.parquet(coerce_int96_timestamp_unit="ms").read_row_group(row_group, columns=odd)
        found = []
        for name in odd:
            millis = column_of(_columns_by_name(coarse), name)
            found += [(row, name) for row in _apart(times[name], millis)] if millis is not None else []
        return found

    def check_read(self, split: Split) -> None:
        """Checks that the data come from the file that was opened, and that it was not overwritten.

        Raises:
            CorruptFileError: they may come from another file.
            StorageError: the file system failed.
        """
        if not self._file.is_pinned:
            # An open file can be read to its end even if it was deleted.
            with suppress(StorageNotFoundError):
                self._check_stamp(split)

    def close(self) -> None:
        # Nothing was written, and reads have raised their own errors.
        with suppress(OSError):
            self._file.close()

    def _reader(self, dictionaries: tuple[str, ...]) -> pq.ParquetFile:
        if dictionaries not in self._readers:
            self._readers[dictionaries] = self._file.parquet(
                read_dictionary=dictionaries, coerce_int96_timestamp_unit="us", page_checksum_verification=True
            )
        return self._readers[dictionaries]

    def _dictionaries(self, row_group: int) -> tuple[str, ...]:
        """Returns the text columns of a row group that Arrow reads as dictionaries: not those whose pages hold deltas,
        which Spark writes with `parquet.writer.version=v2`.
        """
        group = self.metadata.row_group(row_group)
        texts = ((name, group.column(leaf)) for name, leaf in self._texts.items())
        # A column without a value has another type.
        return tuple(name for name, c in texts if c.physical_type in _BYTES and _DELTAS.isdisjoint(c.encodings))

    def _check_stamp(self, split: Split, footer: int | None = None, found: FileEntry | None = None) -> None:
        if split.stamp is None:
            return
        if changed := differences(split.stamp, found or self._storage.stat(split.path), footer):
            raise CorruptFileError(f"{split.path} has changed since it was planned ({changed})")
