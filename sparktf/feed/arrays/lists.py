"""Flattens columns of lists, with the same number of places for every row, without touching a row in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.feature import Feature
from sparktf.feed.arrays.aside import Reason, RowNumbers

Refuse = Callable[[RowNumbers, Reason], None]
"""(rows, reasons) for rows that fail a check: raises, or notes them. See `sparktf.feed.arrays.aside.Judge`."""


class Lists(NamedTuple):
    """The lists of a column."""

    values: pa.Array  # The values of all lists in sequence, truncated to `places` for each row
    lengths: npt.NDArray[np.int64]  # int [rows], the number of values of each row; 0 for a null
    places: int  # Values that each row must have

    @property
    def fill_all(self) -> bool:
        """Whether every row has as many values as places."""
        return len(self.values) == len(self.lengths) * self.places

    @property
    def taken(self) -> npt.NDArray[np.bool_]:
        """bool [rows, places], the places that have values."""
        taken: npt.NDArray[np.bool_] = np.arange(self.places) < self.lengths[:, None]
        return taken

    def rows_of(self, values: RowNumbers) -> RowNumbers:
        """Returns the rows of some of the values, given by their positions."""
        return np.searchsorted(np.cumsum(self.lengths), values, side="right")


def take_apart(array: pa.Array, feature: Feature, refuse: Refuse) -> Lists:
    """Flattens the lists of a column; a null counts as an empty list.

    Args:
        refuse: Called for rows whose list has too many or too few values for the feature; if these are set aside, their
            lists are truncated or padded.
    """
    lengths, places = _lengths(array), feature.places
    wrong = lengths != places
    if not wrong.any():
        return Lists(array.flatten(), lengths, places)
    long = lengths > places
    if feature.truncate:
        wrong &= ~long
    if feature.pad is not None:
        wrong &= long
    if array.null_count:
        wrong &= array.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        rows = np.flatnonzero(wrong)
        refuse(rows, lambda i: wrong_length(int(lengths[rows[i]]), feature))
    values = array.flatten()
    if not long.any():
        return Lists(values, lengths, places)
    starts = np.cumsum(lengths) - lengths
    kept = np.arange(len(values)) - np.repeat(starts, lengths) < places
    return Lists(values.filter(pa.array(kept)), np.minimum(lengths, places), places)


def all_values(array: pa.Array) -> Lists:
    """Flattens lists of any length; a null counts as an empty list."""
    return Lists(array.flatten(), _lengths(array), 0)


def byte_lists(array: pa.Array) -> pa.Array:
    """Returns the bytes of a binary column as lists of uint8, in the same memory."""
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pt.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    valid, offsets, data = array.buffers()
    data = data or pa.py_buffer(b"")
    values = pa.Array.from_buffers(pa.uint8(), data.size, [None, data])
    kind = pa.large_list(pa.uint8()) if pt.is_large_binary(array.type) else pa.list_(pa.uint8())
    return pa.Array.from_buffers(kind, len(array), [valid, offsets], array.null_count, array.offset, [values])


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    if array.null_count:
        lengths: npt.NDArray[np.int64] = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
        return lengths
    if pt.is_fixed_size_list(array.type):
        return np.full(len(array), array.type.list_size, np.int64)
    offsets: npt.NDArray[np.int64] = array.offsets.to_numpy().astype(np.int64, copy=False)
    return np.diff(offsets)


def wrong_length(length: int, feature: Feature) -> str:
    """Returns the error of a list of this length."""
    found = f"a list of {length} values"
    if length > feature.places and feature.pad is not None:
        return f"{found}, more than {feature.places}; set `truncate: true` to cut it off"
    if length < feature.places and feature.truncate:
        return f"{found}, fewer than {feature.places}; set `pad` to fill it up"
    return f"{found}, not {feature.places}"
