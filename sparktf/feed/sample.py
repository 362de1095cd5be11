"""The first rows that a feed has handed out, kept for later."""

from __future__ import annotations

from sparktf.feature import Feature, FeedSpec
from sparktf.feed.arrays.columns import Array, Column, Columns, Ragged, Strings, concat_rows, row_count, slice_rows

_ROWS = 32
_NBYTES = 4 << 20
"""Of wide rows, such as images, fewer are kept than of others."""


class RowSample:
    """Keeps up to 32 rows of inputs, fewer of large ones, in memory of its own: what a feed hands out is the caller's.

    Targets and weights are not kept.
    """

    def __init__(self, spec: FeedSpec) -> None:
        """Keeps nothing yet."""
        self._inputs = spec.inputs
        self._missing = max(min(_ROWS, _NBYTES // max(sum(map(_row_nbytes, spec.inputs)), 1)), 1)
        self._parts: list[Columns] = []

    def offer(self, columns: Columns) -> None:
        """Takes what is missing yet."""
        if not self._missing or not row_count(columns):
            return
        given = {feature.key: columns[feature.key] for feature in self._inputs}
        part = {key: _copy(column) for key, column in slice_rows(given, 0, self._missing).items()}
        self._missing -= row_count(part)
        self._parts.append(part)

    @property
    def columns(self) -> Columns:
        """What is kept, by `Feature.key`; no column where there are no rows."""
        return concat_rows(self._parts, {}) if self._parts else {}


def _row_nbytes(feature: Feature) -> int:
    return feature.row_nbytes


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
