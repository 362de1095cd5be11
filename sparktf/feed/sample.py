"""The first rows that a feed has handed out, kept for later."""

from __future__ import annotations

from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import Array, Column, Columns, Ragged, Strings, concat_rows, row_count, slice_rows

_ROWS = 32
_NBYTES = 4 << 20
"""Fewer wide rows, such as images, are kept."""


class RowSample:
    """Keeps copies of up to 32 rows of inputs, fewer of large ones; no targets or weights."""

    def __init__(self, spec: FeedSpec) -> None:
        self._inputs = spec.inputs
        row_nbytes = sum(feature.row_nbytes for feature in spec.inputs)
        self._missing = max(min(_ROWS, _NBYTES // max(row_nbytes, 1)), 1)
        self._parts: list[Columns] = []

    def offer(self, columns: Columns) -> None:
        """Copies rows that are still missing."""
        if not self._missing or not row_count(columns):
            return
        given = {feature.key: columns[feature.key] for feature in self._inputs}
        part = {key: _copy(column) for key, column in slice_rows(given, 0, self._missing).items()}
        self._missing -= row_count(part)
        self._parts.append(part)

    @property
    def columns(self) -> Columns:
        """The kept rows, by `Feature.key`; no column if there are no rows."""
        return concat_rows(self._parts, {}) if self._parts else {}


def _copy(column: Column) -> Column:
    if isinstance(column, Ragged):
        column = column.compact()
        return Ragged(_copy_values(column.values), column.splits.copy())
    return _copy_values(column)


def _copy_values(values: Array | Strings) -> Array | Strings:
    if isinstance(values, Strings):
        compact = values.compact()
        return Strings(compact.codes.copy(), compact.values.copy())
    return values.copy()
