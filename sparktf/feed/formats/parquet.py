"""Reads row groups of Parquet files into tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.errors import CorruptFileError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.arrow_types import fits
from sparktf.feed.arrays.columns import Array
from sparktf.feed.arrays.nested import column_of
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.arrays.untyped import typed
from sparktf.feed.arrays.vectors import plain_type
from sparktf.feed.formats.once_opened import OPEN_FILES, OnceOpened
from sparktf.feed.formats.planned_file import PlannedFile
from sparktf.feed.formats.selection import selected_rows
from sparktf.feed.formats.splits import OpenStorage, kept_rows, repeated
from sparktf.sequence import Split

_BEYOND = "its INT96 timestamp does not fit into 64 bits as microseconds"


def file_columns(spec: FeedSpec) -> dict[str, str]:
    """Returns the features' columns that are not partition columns -> their names in the files."""
    used = sorted({name for feature in spec.features for name in feature.columns}.difference(spec.partition_columns))
    return {name: spec.renamed.get(name, name) for name in used}


def read_columns(spec: FeedSpec) -> frozenset[str]:
    """Returns the names in the files of all columns to read: those of `file_columns` and of the filter."""
    return frozenset(file_columns(spec).values()).union(comparison.column for comparison in spec.where)


class SplitReader:
    """Reads whole splits; keeps the last files open, because blocks return to a file for each row group."""

    def __init__(
        self,
        spec: FeedSpec,
        open_storage: OpenStorage,
        *,
        sets_aside: bool = False,
        use_threads: bool = False,
        opened: OnceOpened[Any] | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            sets_aside: Set unreadable row groups aside, rather than refuse them.
            use_threads: Let Arrow decode columns on all its threads, which takes cores from other work.
            opened: See `NewReader`.
        """
        self._spec = spec
        self._open_storage = open_storage
        self._sets_aside = sets_aside
        self._use_threads = use_threads
        self._opened = opened
        self._columns = file_columns(spec)
        self._in_file = read_columns(spec)
        self._files: OrderedDict[str, PlannedFile] = OrderedDict()
        # Not those of lists, whose values have names that depend on the writer.
        texts = (name for f in spec.features if f.is_text and not (f.shape or f.ragged) for name in f.columns)
        self._texts = [self._columns[name] for name in texts if name in self._columns]

    def read(self, split: Split, only: Collection[str] | None = None) -> RowGroup:
        """See `Reader.read`. If bad rows are set aside, a damaged row group has no columns, but a reason."""
        file = self._open(split)
        file.check_shape(split)
        group = RowGroup(
            origin=split.path,
            number=partial(_number, file.metadata, split.row_group, None),
            columns={},
            rows=split.rows,
            kept=kept_rows(split, self._spec.seed),
            fill_null=self._spec.fill_null,
        )
        try:
            in_file = None if only is None else self._in_file_of(only)
            table = file.read(split.row_group, use_threads=self._use_threads, columns=in_file)
        except CorruptFileError as error:
            file.check_read(split)
            if not self._sets_aside:
                raise
            return replace(group, unreadable=str(error))
        beyond = file.beyond(split.row_group, table)
        file.check_read(split)
        selected = self._selected(table, split)
        if selected is not None:
            table = table.take(selected)
            group = replace(group, number=partial(_number, file.metadata, split.row_group, selected))
        found = dict(zip(table.column_names, table.columns, strict=True))
        wanted = [name for name in self._columns if only is None or name in only]
        fields = {name: column_of(found, self._columns[name]) for name in wanted}
        columns = {name: column for name, column in fields.items() if column is not None}
        named = zip(self._spec.partition_columns, self._spec.partition_types, split.partition, strict=True)
        # A partition column becomes an ordinary column, with its value in each row.
        columns |= {name: pa.chunked_array([repeated(value, kind, split.selected)]) for name, kind, value in named}
        columns = typed(columns, self._spec.untyped)
        self._check_types(columns, split.path, only)
        return replace(group, columns=columns, refused=self._refused(beyond))

    def _refused(self, beyond: Sequence[tuple[int, str]]) -> tuple[tuple[int, str, str], ...]:
        """Returns refused rows, with the features' names of the columns."""
        names = {in_file: name for name, in_file in self._columns.items()}
        return tuple((row, names[in_file], _BEYOND) for row, in_file in beyond if in_file in names)

    def close(self) -> None:
        while self._files:
            self._files.popitem(last=False)[1].close()

    def _open(self, split: Split) -> PlannedFile:
        path = split.path
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        file = PlannedFile(self._open_storage(path), split, self._in_file, self._texts, self._opened)
        if len(self._files) >= OPEN_FILES:
            self._files.popitem(last=False)[1].close()
        self._files[path] = file
        return file

    def _selected(self, table: pa.Table, split: Split) -> Array | None:
        """Returns the rows of a row group that pass the source's filter; None for all."""
        if split.selected == split.group_rows:
            return None
        changed = CorruptFileError(f"{split.path} has changed since it was planned (row group {split.row_group})")
        try:
            selected = selected_rows(table, self._spec.where)
        except (KeyError, pa.ArrowException) as error:  # a column is gone, or of another type
            raise changed from error
        if len(selected) != split.selected:
            raise changed
        return selected

    def _in_file_of(self, columns: Collection[str]) -> list[str]:
        """Returns the names in the files of the columns to read for some columns."""
        found = {self._columns[name] for name in columns if name in self._columns}
        return sorted(found.union(comparison.column for comparison in self._spec.where))

    def _check_types(self, columns: dict[str, pa.ChunkedArray], path: str, only: Collection[str] | None) -> None:
        """Checks types, since a file rewritten with equal sizes and other columns would fail later without its name."""
        for feature in self._spec.features:
            for name in feature.columns:
                if only is not None and name not in only:
                    continue
                column = column_of(columns, name)
                if column is None or not fits(feature, plain_type(column.type)):
                    raise CorruptFileError(f"{path} has changed since it was planned (column {name!r})")


def _number(metadata: pq.FileMetaData, row_group: int, selected: Array | None, row: int) -> int:
    """Returns the number in the file of a (selected) row of a row group."""
    before: int = sum(metadata.row_group(i).num_rows for i in range(row_group))
    return before + (row if selected is None else int(selected[row]))
