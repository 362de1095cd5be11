"""Converts the values of one column of an RDD's rows into an Arrow array, checking each against the declared type.

A value is accepted or refused independently of the values around it, since the chunks of rows are arbitrary. So no type
is inferred (`pyarrow.infer_type` also takes a number among times for a time, and aborts the process at a NumPy time
beside a number); the types of a column's values are looked up in `_TIMES` instead.
"""

from __future__ import annotations

import array
import collections
import datetime
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

UNFIT = (pa.ArrowException, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError)
"""Errors of converting rows and values that do not fit."""

_CODES = {pa.int8(): "b", pa.int16(): "h", pa.int32(): "i", pa.int64(): "q"}
"""Arrow's integer types -> type codes of Python's `array`."""

# (test of an Arrow type, types of its values): Arrow would accept numbers as times, too.
_TIMES: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (pt.is_date, (datetime.date,)),
    (lambda kind: pt.is_timestamp(kind) and kind.tz is not None, (datetime.datetime,)),
    (pt.is_timestamp, (datetime.datetime, np.datetime64)),
    (pt.is_time, (datetime.time,)),
    (pt.is_duration, (datetime.timedelta, np.timedelta64)),
)
_NO_TIME = "NaTType"
"""The type of pandas' NaT, which is a datetime and has no date."""

# Arrow itself checks each value of these types, also within lists.
_CHECKED_BY_ARROW = (
    pt.is_boolean,
    pt.is_floating,
    pt.is_decimal,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
)


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Converts the values of a column; stricter than Arrow, which truncates 1.5 to an int.

    Raises:
        One of `UNFIT`: a value does not have the type.
    """
    if pt.is_struct(kind):
        return _structs(values, kind)
    if pt.is_map(kind):
        return _maps(values, kind)
    if pt.is_list(kind):
        return _lists(values, kind)
    if pt.is_integer(kind):
        return _integers(values, kind)
    if pt.is_temporal(kind):
        return _times(values, kind)
    return pa.array(values, kind)


def field_columns(rows: Sequence[Any], wanted: Sequence[str], names: Sequence[str]) -> list[Sequence[Any]]:
    """Returns the values of each wanted field of some dicts, Rows, or tuples, which have all fields (`names`).

    Raises:
        ValueError, KeyError, TypeError: the rows are of several kinds, or a field is missing.
    """
    kinds = set(map(type, rows))
    if any(issubclass(kind, dict) for kind in kinds):
        if not all(issubclass(kind, dict) for kind in kinds):
            raise TypeError("not a dict, as others are")
        return [[row.get(name) for row in rows] for name in wanted]
    if not all(issubclass(kind, (tuple, list)) for kind in kinds):
        raise TypeError("not dict, Row or tuple")
    # A Row names its fields itself.
    named = getattr(rows[0], "__fields__", None)
    if any(getattr(row, "__fields__", None) != named for row in rows):
        return [[row[name] for row in rows] for name in wanted]
    fields = list(names if named is None else named)
    positions = [fields.index(name) for name in wanted]
    columns = list(zip(*rows, strict=True))
    if len(columns) != len(fields):
        raise ValueError(f"{len(columns)} values for {len(fields)} fields")
    return [columns[i] for i in positions]


def _types(values: Iterable[Any]) -> set[type]:
    return set(map(type, values)) - {type(None)}


def _integers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns a column of integers; values may also be null, bools, or whole floats."""
    plain = _plain_integers(values, kind)
    if plain is not None:
        return plain
    if all(found is int or (issubclass(found, np.integer) and _is_number(found)) for found in _types(values)):
        return pa.array(values, kind)
    return pa.array([_whole(value) for value in values], kind)


def _plain_integers(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Returns a column of integers or lists of them; None if there are nulls or other types.

    It takes half the time of Arrow, which would also truncate 1.5.
    """
    code = _CODES.get(kind.value_type if pt.is_list(kind) else kind)
    if code is None:
        return None
    flat = array.array(code)
    try:
        if not pt.is_list(kind):
            flat.fromlist(list(values))
            return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(flat)])
        collections.deque(map(flat.fromlist, values), maxlen=0)
        offsets = array.array("i", itertools.accumulate(map(len, values), initial=0))
    except (TypeError, OverflowError):
        return None
    items = pa.Array.from_buffers(kind.value_type, len(flat), [None, pa.py_buffer(flat)])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets)], children=[items])


def _whole(value: Any) -> int | None:
    """Returns a number as an int; also True, which is 1 in Python.

    Raises:
        TypeError, ValueError, OverflowError: it is not a whole number.
    """
    if value is None:
        return None
    if isinstance(value, np.bool_):
        return int(value)
    if not isinstance(value, (float, np.floating, Decimal, Fraction)):
        return operator.index(value)
    whole = int(value)
    if whole != value:
        raise ValueError(f"{value} is not a whole number")
    return whole


def _is_number(found: type) -> bool:
    """Whether a NumPy integer is a number: timedelta64 is a signed integer, too."""
    return not issubclass(found, np.timedelta64)


def _times(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns a column of dates, times, timestamps or durations."""
    accepted = next((accepted for test, accepted in _TIMES if test(kind)), ())
    for found in _types(values):
        if not issubclass(found, accepted) or found.__name__ == _NO_TIME:
            raise TypeError(f"a {found.__name__} is not a value of type {kind}")
    if pt.is_timestamp(kind) and kind.tz is not None:
        values = [_with_zone(value) for value in values]
    return pa.array(values, kind)


def _with_zone(value: datetime.datetime | None) -> datetime.datetime | None:
    """Returns a datetime with a time zone. One without is local time, as in Spark; Arrow would take it for UTC."""
    return value.astimezone() if value is not None and value.tzinfo is None else value


def _lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns a column of lists, tuples, arrays, or None."""
    found = _types(values)
    if any(issubclass(each, (str, bytes, bytearray, memoryview, Mapping)) for each in found):
        raise TypeError("a string, bytes or a dict is not a list")
    of = kind.value_type
    if any(test(of) for test in _CHECKED_BY_ARROW):
        return pa.array(values, kind)
    if pt.is_integer(of):
        plain = _plain_integers(values, kind)
        if plain is not None:
            return plain
        if found == {np.ndarray} and all(_is_plain(value) for value in values if value is not None):
            return pa.array(values, kind)
    items, offsets = _flat(values)
    return pa.ListArray.from_arrays(offsets, to_array(items, of), type=kind)


def _is_plain(value: np.ndarray[Any, Any]) -> bool:
    return value.ndim == 1 and value.dtype.kind in "iu" and value.dtype.isnative


def _flat(values: Sequence[Any]) -> tuple[list[Any], pa.Array]:
    """Returns the items of all lists, and the lists' offsets, null for None."""
    lengths = [0 if value is None else len(value) for value in values]
    items = list(itertools.chain.from_iterable(value for value in values if value is not None))
    starts = list(itertools.accumulate(lengths, initial=0))
    offsets = [None if value is None else start for value, start in zip(values, starts, strict=False)]
    return items, pa.array([*offsets, starts[-1]], pa.int32())


def _maps(values: Sequence[Any], kind: pa.MapType) -> pa.Array:
    """Returns a column of dicts, lists of pairs, or None."""
    pairs = [list(value.items()) if isinstance(value, Mapping) else value for value in values]
    items, offsets = _flat(pairs)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 and pair[0] is not None for pair in items):
        raise ValueError("not pairs of key and value")
    keys = to_array([key for key, _ in items], kind.key_type)
    return pa.MapArray.from_arrays(offsets, keys, to_array([value for _, value in items], kind.item_type), type=kind)


def _structs(values: Sequence[Any], kind: pa.StructType) -> pa.Array:
    """Returns a column of dicts, Rows, tuples, or None. Arrow alone would read the fields of Rows by position."""
    fields = list(kind)
    names = [field.name for field in fields]
    there = [value for value in values if value is not None]
    columns = field_columns(there, names, names) if there else [[]] * len(fields)
    arrays = [to_array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    if len(there) == len(values):
        return structs
    count = itertools.count()
    return structs.take(pa.array([None if value is None else next(count) for value in values], pa.int64()))
