"""Converts features of tensorflow.Example messages into columns of Spark's types; no record is touched in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.feed.arrays.arrow_types import is_list
from sparktf.feed.formats.byte_buffer import PADDING, Bytes, halves_at, joined_bytes, padded, strings_at, words_at
from sparktf.feed.formats.examples import ListKind, MalformedError, Places, find_features, varint_nbytes, varints
from sparktf.feed.formats.record_file import Records
from sparktf.sequence import Integers
from sparktf.told import line_of_error

_NAMES = {ListKind.NOTHING: "nothing", ListKind.BYTES: "bytes", ListKind.FLOAT: "floats", ListKind.INT64: "integers"}
_ONE_VALUE = 0x040A
"""The beginning of a FloatList of one value."""
_LISTED = 0x0A
_MOST_NBYTES = 10  # Bytes of the longest varint of 64 bits
_AT_ONCE = 4096
"""Records parsed at a time: their state stays in the caches."""


class BadFeatureError(ValueError):
    """The feature of record `row` does not fit its column."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


class _UnusualError(ValueError):
    """Lists of numbers in the records `rows` are encoded in an unusual way."""

    def __init__(self, rows: Integers) -> None:
        super().__init__("lists are not packed")
        self.rows = rows


RefuseFeature = Callable[[int, str, str], None]
"""(record, feature, reason) of an unfit value: raises, or notes it; then a null takes its place."""


def example_columns(
    records: Records, types: Mapping[str, pa.DataType], refuse: RefuseFeature
) -> dict[str, pa.ChunkedArray]:
    """Returns features of records as columns; see `example_column`.

    Args:
        types: Feature -> the column's type, one of `sparktf.feed.formats.record_types`.
        refuse: Called for a record that is no Example, with "" as the feature, and for a feature of another type.
    """
    parts: dict[str, list[pa.Array]] = {name: [] for name in types}
    for first in range(0, len(records.starts), _AT_ONCE):
        chunk = slice(first, first + _AT_ONCE)
        for name, column in _chunk(records.buffer, records.starts[chunk], records.stops[chunk], types, refuse, first):
            parts[name].append(column)
    return {name: pa.chunked_array(parts[name], column_kind(kind)) for name, kind in types.items()}


def column_kind(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the column that `example_column` makes for a type."""
    return pa.large_list(kind.value_type) if is_list(kind) else kind


def _chunk(
    buffer: Bytes,
    starts: Integers,
    stops: Integers,
    types: Mapping[str, pa.DataType],
    refuse: RefuseFeature,
    first: int,
) -> list[tuple[str, pa.Array]]:
    stops = stops.copy()
    anew = np.zeros(len(starts), np.bool_)
    while True:
        try:
            made, places = find_features(buffer, starts, stops, types, anew)
            return [(name, _column(made, name, places[name], types[name], refuse, first)) for name in types]
        except MalformedError as error:
            refuse(first + error.row, "", f"it is not a tensorflow.Example: {error}")
            stops[error.row] = starts[error.row]
        except _UnusualError as error:
            anew[error.rows] = True


def _column(buffer: Bytes, name: str, places: Places, kind: pa.DataType, refuse: RefuseFeature, first: int) -> pa.Array:
    while True:
        try:
            return example_column(buffer, places, kind)
        except BadFeatureError as error:
            refuse(first + error.row, name, str(error))
            places.kind[error.row] = ListKind.NOTHING


class _Lists(NamedTuple):
    """The values of the records that have any: those of record `rows[i]` are `counts[i]` of `values`."""

    rows: Integers
    counts: Integers
    values: pa.Array  # All values in sequence, of the file's type: float32, int64 or binary
    is_single: bool = False  # Whether each record is known to have exactly one


def example_column(buffer: Bytes, places: Places, kind: pa.DataType) -> pa.Array:
    """Returns a feature as a column [n_records] of type `kind`; a record without values has a null.

    Raises:
        BadFeatureError: a record has values of another kind, several instead of one, or one beyond the type's range.
    """
    n = len(places.kind)
    value_kind = kind.value_type if is_list(kind) else kind
    wanted = list_kind_of(value_kind)
    there = places.kind != ListKind.NOTHING
    other = there & (places.kind != wanted)
    if other.any():
        row = int(np.argmax(other))
        has, wants = _NAMES[ListKind(places.kind[row])], _NAMES[wanted]
        raise BadFeatureError(
            row,
            f"it has {has}, but a column of type {kind} is made of {wants}: set another type in data.record_types",
        )
    rows = np.flatnonzero(there)
    start, stop = (places.start, places.stop) if len(rows) == n else (places.start[rows], places.stop[rows])
    lists = _lists(buffer, rows, start, stop, wanted, single=not is_list(kind))
    values = _values(lists, value_kind)
    if len(values) == n and lists.is_single:
        return values
    counts = np.zeros(n, np.int64)
    counts[lists.rows] = lists.counts
    if is_list(kind):
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~there))
    if counts.max(initial=0) > 1:
        row = int(np.argmax(counts > 1))
        raise BadFeatureError(row, f"it has {counts[row]} values, but a column of type {kind} has one")
    at = np.cumsum(counts) - counts
    return values.take(pa.array(at, mask=counts == 0))


def list_kind_of(kind: pa.DataType) -> ListKind:
    """Returns the kind of list that a feature must have for a column of single values."""
    if pt.is_floating(kind):
        return ListKind.FLOAT
    return ListKind.INT64 if pt.is_integer(kind) or pt.is_boolean(kind) else ListKind.BYTES


def _lists(buffer: Bytes, rows: Integers, start: Integers, stop: Integers, kind: ListKind, *, single: bool) -> _Lists:
    if kind is ListKind.BYTES:
        return _texts(buffer, rows, start, stop)
    if single and (found := _single_numbers(buffer, rows, start, stop, kind)) is not None:
        return found
    begin = _content(buffer, rows, start, stop)
    content = strings_at(buffer, begin, stop)
    nbytes = stop - begin
    if kind is ListKind.FLOAT:
        return _Lists(rows, nbytes // 4, pa.array(joined_bytes(content).view("<f4")))
    numbers = padded(joined_bytes(content).data)
    ends = np.flatnonzero(numbers[PADDING:-PADDING] < 0x80)
    bounds = np.searchsorted(ends, np.concatenate([[0], np.cumsum(nbytes)]))
    first = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    return _Lists(rows, np.diff(bounds), pa.array(_integers(numbers, first + PADDING, ends - first + 1)))


def _single_numbers(buffer: Bytes, rows: Integers, start: Integers, stop: Integers, kind: ListKind) -> _Lists | None:
    """Returns the numbers of records if each has exactly one; else None."""
    if not len(rows):
        return None
    ones = np.ones(len(rows), np.int64)
    if kind is ListKind.FLOAT:
        head = words_at(buffer, start) & np.uint64(0xFFFF)
        if not ((head == _ONE_VALUE) & (stop - start == 6)).all():
            return None
        return _Lists(rows, ones, pa.array(halves_at(buffer, start + 2).view("<f4")), True)
    nbytes = buffer[start + 1].astype(np.int64)
    last = buffer[np.minimum(stop, len(buffer)) - 1]
    is_one = (buffer[start] == _LISTED) & (nbytes == stop - start - 2) & (nbytes > 0) & (nbytes <= _MOST_NBYTES)
    if not (is_one & (last < 0x80)).all():
        return None
    words = words_at(buffer, start + 2)
    if not (np.minimum(varint_nbytes(words), 9) == np.minimum(nbytes, 9)).all():
        return None
    return _Lists(rows, ones, pa.array(_integers(buffer, start + 2, nbytes)), True)


def _integers(buffer: Bytes, at: Integers, nbytes: Integers) -> Integers:
    """Returns the varints of known lengths at some places as int64."""
    found = varints(words_at(buffer, at), np.minimum(nbytes, 8))
    long = np.flatnonzero(nbytes > 8)
    if len(long):
        high = words_at(buffer, at[long] + 8)
        found[long] |= (high & np.uint64(0x7F)) << np.uint64(56)
        longest = nbytes[long] > 9
        found[long[longest]] |= (high[longest] >> np.uint64(8)) << np.uint64(63)
    return found.view(np.int64)


def _content(buffer: Bytes, rows: Integers, start: Integers, stop: Integers) -> Integers:
    """Returns the starts of the packed numbers of each list, which end with it."""
    begin = stop.copy()
    some = np.flatnonzero(stop > start)
    length, inner = _told_at(buffer, start[some])
    begin[some] = inner
    wrong = (buffer[start[some]] != _LISTED) | (inner + length != stop[some])
    if wrong.any():
        raise _UnusualError(rows[some[wrong]])
    return begin


def _told_at(buffer: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Returns the lengths behind tags, and the starts of their content."""
    word = words_at(buffer, at + 1)
    nbytes = varint_nbytes(word)
    return varints(word, np.minimum(nbytes, 8)).astype(np.int64), at + 1 + nbytes


def _texts(buffer: Bytes, rows: Integers, start: Integers, stop: Integers) -> _Lists:
    counts = np.zeros(len(rows), np.int64)
    at, left = start, np.flatnonzero(stop > start)
    found: list[tuple[Integers, Integers, Integers]] = []
    at = start.copy()
    while len(left):
        length, begin = _told_at(buffer, at[left])
        end = begin + length
        wrong = (buffer[at[left]] != _LISTED) | (end > stop[left])
        if wrong.any():
            raise _UnusualError(rows[left[wrong]])
        found.append((left, begin, end))
        counts[left] += 1
        at[left] = end
        left = left[end < stop[left]]
    if not found:
        return _Lists(rows, counts, pa.array([], pa.large_binary()))
    of, begin, end = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(of, kind="stable") if len(found) > 1 else slice(None)
    return _Lists(rows, counts, strings_at(buffer, begin[order], end[order]))


def _values(lists: _Lists, kind: pa.DataType) -> pa.Array:
    """Returns the values of lists as values of a type."""
    try:
        return _cast(lists.values, kind)
    except pa.ArrowInvalid as error:
        raise BadFeatureError(_first_unfit(lists, kind), line_of_error(error)) from None


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Raises `ArrowInvalid` if a value does not fit."""
    if pt.is_boolean(kind) and not pc.all(pc.is_in(values, pa.array([0, 1], pa.int64())), min_count=0).as_py():
        raise pa.ArrowInvalid("a number that is neither 0 nor 1")
    return values.cast(kind)


def _first_unfit(lists: _Lists, kind: pa.DataType) -> int:
    """Returns the first record with an unfit value, by bisection."""
    first, last = 0, len(lists.values)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            _cast(lists.values.slice(first, middle - first), kind)
        except pa.ArrowInvalid:
            last = middle
        else:
            first = middle
    return int(lists.rows[np.searchsorted(np.cumsum(lists.counts), first, "right")])
