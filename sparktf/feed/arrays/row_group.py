"""Rows that are read together, whoever reads them, before they are made into tensors."""

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
    """Rows that are read together: a row group of a file.

    Attributes:
        origin: What the rows come from, for messages: the file's path.
        number: Returns the number of a row in the origin; asked only where one is refused.
        columns: The columns that features use, whole structs where a feature uses a field of one.
        rows: How many of its rows belong to the stream.
        kept: int64 [rows], the rows of the group that belong to the stream, or None for all.
        fill_null: Column -> value in place of null.
        unreadable: Why it has no columns: the file is damaged there; "" where it has.
        refused: Rows of the group that could not be read, with the column and the reason; nulls are in their place.
    """

    origin: str
    number: Number
    columns: Mapping[str, pa.ChunkedArray]
    rows: int
    kept: Array | None = None
    fill_null: Mapping[str, FillValue] = field(default_factory=dict)
    unreadable: str = ""
    refused: tuple[tuple[int, str, str], ...] = ()

    def judge(self, aside: Aside | None, start: int) -> Judge:
        """Returns who judges rows of the group that fail a check.

        Args:
            aside: Where such rows are noted; None where the first one is refused.
            start: The first row of the group among the rows of its block.
        """
        if aside is None:
            return partial(refuse, self.origin, self.number)
        return partial(aside.judge, self.origin, self.number, self.kept, start)

    def column(self, name: str) -> pa.Array:
        """Returns a column in one piece, [group rows]; a dotted name is a field of a struct.

        Raises:
            KeyError: there is none of the name.
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
        """Returns which rows of the group some of the kept ones are."""
        return kept if self.kept is None else self.kept[kept]
