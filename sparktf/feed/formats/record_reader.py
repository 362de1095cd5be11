"""Reads groups of TFRecord records into columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from sparktf.errors import BadValueError, CorruptFileError, SourceNotFoundError, StorageError, StorageNotFoundError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.formats.example_columns import example_columns
from sparktf.feed.formats.once_opened import OnceOpened
from sparktf.feed.formats.parquet_file import differences
from sparktf.feed.formats.record_file import Records, count_records, read_records
from sparktf.feed.formats.record_types import record_type
from sparktf.feed.formats.splits import OpenStorage, kept_rows, repeated
from sparktf.sequence import Split
from sparktf.storage.base import FileEntry, RangedStream, Storage


class RecordReader:
    """Reads whole splits. The `row_group` of a split is the offset of its records in the file."""

    def __init__(
        self,
        spec: FeedSpec,
        open_storage: OpenStorage,
        *,
        sets_aside: bool = False,
        use_threads: bool = False,
        opened: OnceOpened[Any] | None = None,
    ) -> None:
        """Opens nothing yet; with `sets_aside`, unreadable records are set aside, not refused.

        `use_threads` is ignored: records are decoded in the reading thread. `opened`: see `NewReader`.
        """
        del use_threads
        self._spec = spec
        self._open_storage = open_storage
        self._sets_aside = sets_aside
        self._opened: OnceOpened[RangedStream] = OnceOpened() if opened is None else opened
        self._types = {
            name: record_type(spec.record_types[name])
            for name in sorted({name for feature in spec.features for name in feature.columns})
            if name not in spec.partition_columns
        }

    def read(self, split: Split, only: Collection[str] | None = None) -> RowGroup:
        """See `sparktf.feed.formats.split_sequence.Reader`.

        Raises:
            BadValueError: a record is not an Example, or a feature does not fit its column, and none is set aside.
            CorruptFileError: the file is damaged, and nothing is set aside.
            SourceNotFoundError: the file was deleted after the plan was made.
        """
        storage, spec = self._open_storage(split.path), self._spec
        number = partial(_number, storage, split)
        group = RowGroup(split.path, number, {}, split.rows, kept_rows(split, spec.seed), spec.fill_null)
        try:
            records = self._records(storage, split)
        except StorageNotFoundError as error:
            raise SourceNotFoundError(f"{split.path} was deleted after the plan was made") from error
        except CorruptFileError as error:
            self._check_stamp(storage, split)
            if not self._sets_aside:
                raise
            return replace(group, unreadable=str(error))
        if len(records.starts) != split.group_rows:
            raise CorruptFileError(f"{split.path} has changed since it was planned")
        refused: list[tuple[int, str, str]] = []

        def refuse(row: int, name: str, reason: str) -> None:
            if not self._sets_aside:
                column = f"column {name!r}, " if name else ""
                raise BadValueError(f"{split.path}: {column}row {number(row)}: {reason}")
            refused.append((row, name, reason))

        types = {name: kind for name, kind in self._types.items() if only is None or name in only}
        columns: dict[str, pa.ChunkedArray] = example_columns(records, types, refuse)
        named = zip(spec.partition_columns, spec.partition_types, split.partition, strict=True)
        columns |= {name: pa.chunked_array([repeated(value, kind, split.group_rows)]) for name, kind, value in named}
        return replace(group, columns=columns, refused=tuple(refused))

    def close(self) -> None:
        """Does nothing: no file is kept open."""

    def _records(self, storage: Storage, split: Split) -> Records:
        """Reads a split. A file in a store is looked at once: what replaces it cannot be read by the same stream."""
        own: list[BinaryIO] = []

        def make() -> RangedStream | None:
            stream = storage.open(split.path)
            raw = getattr(stream, "raw", None)
            if isinstance(raw, RangedStream):
                self._check_entry(raw.entry, split)
                return raw
            own.append(stream)
            return None

        known = self._opened.get(split.path, make)
        if known is None:
            with own[0] as stream:
                records = read_records(stream, split.path, split.row_group, split.nbytes)
            self._check_stamp(storage, split)
            return records
        try:
            return read_records(known, split.path, split.row_group, split.nbytes)
        except StorageError:
            self._opened.forget(split.path)
            self._check_stamp(storage, split)  # tells of one that was replaced
            raise

    def _check_stamp(self, storage: Storage, split: Split) -> None:
        try:
            found = storage.stat(split.path)
        except StorageNotFoundError as error:
            raise SourceNotFoundError(f"{split.path} was deleted after the plan was made") from error
        self._check_entry(found, split)

    def _check_entry(self, found: FileEntry, split: Split) -> None:
        if split.stamp is not None and (changed := differences(split.stamp, found)):
            raise CorruptFileError(f"{split.path} has changed since it was planned ({changed})")


def _number(storage: Storage, split: Split, row: int) -> int:
    """Returns the number in the file of a row of a split, by counting the records before it."""
    return count_records(storage, split.path, split.row_group) + row
