"""Reads groups of TFRecord records into columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import pyarrow as pa

from sparktf.errors import BadValueError, CorruptFileError, SourceNotFoundError, StorageNotFoundError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.formats.example_columns import example_columns
from sparktf.feed.formats.parquet_file import differences
from sparktf.feed.formats.record_file import count_records, read_records
from sparktf.feed.formats.record_types import record_type
from sparktf.feed.formats.splits import OpenStorage, kept_rows, repeated
from sparktf.sequence import Split
from sparktf.storage.base import Storage


class RecordReader:
    """Reads whole splits. The `row_group` of a split is the offset of its records in the file."""

    def __init__(
        self, spec: FeedSpec, open_storage: OpenStorage, *, sets_aside: bool = False, use_threads: bool = False
    ) -> None:
        """Opens nothing yet; with `sets_aside`, unreadable records are set aside, not refused.

        `use_threads` is ignored: records are decoded in the reading thread.
        """
        del use_threads
        self._spec = spec
        self._open_storage = open_storage
        self._sets_aside = sets_aside
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
            records = read_records(storage, split.path, split.row_group, split.nbytes)
        except StorageNotFoundError as error:
            raise SourceNotFoundError(f"{split.path} was deleted after the plan was made") from error
        except CorruptFileError as error:
            self._check_stamp(storage, split)
            if not self._sets_aside:
                raise
            return replace(group, unreadable=str(error))
        self._check_stamp(storage, split)
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

    def _check_stamp(self, storage: Storage, split: Split) -> None:
        try:
            changed = split.stamp and differences(split.stamp, storage.stat(split.path))
        except StorageNotFoundError as error:
            raise SourceNotFoundError(f"{split.path} was deleted after the plan was made") from error
        if changed:
            raise CorruptFileError(f"{split.path} has changed since it was planned ({changed})")


def _number(storage: Storage, split: Split, row: int) -> int:
    """Returns the number in the file of a row of a split, by counting the records before it."""
    return count_records(storage, split.path, split.row_group) + row
