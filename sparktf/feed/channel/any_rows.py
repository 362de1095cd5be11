"""Converts rows of Python objects into Arrow record batches and back, many rows at a time, equal in type and value.

Rows that are alike become columns (`value_columns`); what is not alike becomes a column of objects (`any_values`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparktf.feed.channel import spark_values  # noqa: F401 - adds Spark's types to those that are encoded
from sparktf.feed.channel.any_values import UnfitValueError, marked_type, pack_value
from sparktf.feed.channel.value_columns import from_column, to_column

_KIND = b"sparktf.rows"
_SAMPLED, _SAMPLED_WITHIN = 64, 8
"""About how many items of a row, and of a list within it, stand for all when its size is estimated."""
_DEEPEST_LOOK = 5
_ALIKE_ROWS = 64
"""Number of rows whose sizes are estimated by that of one of them."""
MOST_BATCH_NBYTES = 16 << 20
"""About how many bytes of rows go together."""


class UnfitRowsError(TypeError):
    """A row has a value that cannot be encoded.

    Attributes:
        place: Index of the row.
    """

    def __init__(self, place: int, why: str) -> None:
        super().__init__(why)
        self.place = place


def rows_to_batch(rows: Sequence[Any]) -> pa.RecordBatch:
    """Converts rows.

    Raises:
        UnfitRowsError: one of them cannot be encoded.
    """
    try:
        column, kind = to_column(rows)
    except UnfitValueError as error:
        raise _unfit(rows) from error
    told = {_KIND: json.dumps(kind).encode()}
    return pa.RecordBatch.from_arrays([column], schema=pa.schema([pa.field("rows", column.type)], metadata=told))


def batch_to_rows(batch: pa.RecordBatch) -> list[Any]:
    """Returns the rows of `rows_to_batch`."""
    return from_column(batch.column(0), json.loads(batch.schema.metadata[_KIND]))


def _unfit(rows: Sequence[Any]) -> UnfitRowsError:
    """Finds the first row that cannot be encoded; only here rows are looked at one by one."""
    for place, row in enumerate(rows):
        try:
            pack_value(row)
        except UnfitValueError as error:
            return UnfitRowsError(place, str(error))
    raise AssertionError("each row can be encoded")


def rows_together(rows: Sequence[Any], most_rows: int) -> Iterator[Sequence[Any]]:
    """Yields the rows in parts of about `MOST_BATCH_NBYTES` and at most `most_rows`."""
    start = 0
    while start < len(rows):
        end, nbytes = start, 0
        while end < min(len(rows), start + most_rows) and nbytes < MOST_BATCH_NBYTES:
            one = estimated_nbytes(rows[end])
            count = rows_like(one, nbytes)
            end, nbytes = end + count, nbytes + one * count
        end = min(end, start + most_rows)
        yield rows[start:end]
        start = end


def rows_like(nbytes: int, before_nbytes: int) -> int:
    """Returns how many rows one of `nbytes` may stand for in a batch of `before_nbytes`, which is to stay small."""
    return max(1, min(_ALIKE_ROWS, (MOST_BATCH_NBYTES - before_nbytes) // max(1, nbytes)))


def estimated_nbytes(value: Any, depth: int = 0) -> int:
    """Returns about how many bytes a value takes as a column, by a look at no more than some of its items."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return 8 + len(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return 8 + value.nbytes
    if depth > _DEEPEST_LOOK:
        return 8
    if kind is dict:
        return estimated_nbytes(list(value), depth) + estimated_nbytes(list(value.values()), depth)
    if kind is not list:
        marked = marked_type(kind)
        try:
            value = () if marked is None else marked.parts(value)
        except UnfitValueError:  # told when it is encoded
            value = ()
    step = max(1, len(value) // (_SAMPLED_WITHIN if depth else _SAMPLED))
    return 8 + step * sum(estimated_nbytes(item, depth + 1) for item in value[::step])
