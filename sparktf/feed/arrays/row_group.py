"""Rows that are read together, before their conversion into tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from sparktf.feed.arrays.aside import Aside, Judge, Number, refuse
from sparktf.feed.arrays.columns import Array
from sparktf.feed.arrays.nested import column_of
from sparktf.predicate import FillValue


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that are read together: a row group of a file."""

    origin: str  # The file's path, for messages
    number: Number  # Returns the number of a row in the origin; called only for refused rows
    # The columns that features use; whole structs if a feature uses one of their fields
    columns: Mapping[str, pa.ChunkedArray]
    rows: int  # Number of its rows in the stream
    kept: Array | None = None  # int64 [rows], the rows of the group in the stream; None for all
    fill_null: Mapping[str, FillValue] = field(default_factory=dict)  # Column -> value in place of null
    unreadable: str = ""  # Why it has no columns, since the file is damaged; "" if it has columns
    # Unreadable rows of the group, with column and reason; nulls are in their place
    refused: tuple[tuple[int, str, str], ...] = ()

    def judge(self, aside: Aside | None, start: int) -> Judge:
        """Returns the `Judge` of the group's rows.

        Args:
            aside: Notes bad rows; None to refuse the first one.
            start: Position of the group's first row in its block.
        """
        if aside is None:
            return partial(refuse, self.origin, self.number)
        return partial(aside.judge, self.origin, self.number, self.kept, start)

    def column(self, name: str) -> pa.Array:
        """Returns a column in one piece, [group rows]; a dotted name is a field of a struct.

        Raises:
            KeyError: there is no such column.
        """
        column = column_of(self.columns, name)
        if column is None:
            raise KeyError(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    @property
    def nbytes(self) -> int:
        """Bytes of the columns in Arrow's form."""
        return sum(column.nbytes for column in self.columns.values())

    def keep(self, values: Array) -> Array:
        """Returns the kept rows of an array [group rows, ...]."""
        return values if self.kept is None else np.take(values, self.kept, axis=0)

    def rows_of(self, kept: Array) -> Array:
        """Returns the rows of the group that some kept rows are."""
        return kept if self.kept is None else self.kept[kept]
