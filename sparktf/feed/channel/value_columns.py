"""Columns of values that are alike, as Arrow has them; of any other values, a column of encoded objects.

Types are equal or not: True is no integer here, and 1 no float. How to read a column is said in JSON:

    "int", "none", ..., "object"      single values
    ["list" | "tuple", KIND]          of any lengths, with items of one kind
    ["fields", TYPE, NAMES, KINDS]    "list", "tuple" or "dict": each place or key is a column
    ["marked", CODE, HEAD, KINDS]     of a marked type (`any_values`): each part is a column
    ["number", DTYPE]                 NumPy's
    ["array", DTYPE, SHAPE]           NumPy's; without a shape, of one dimension and any lengths
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter, countOf
from typing import Any

import numpy as np
import pyarrow as pa

from sparktf.feed.channel.alike_numbers import LONG, alike_numbers
from sparktf.feed.channel.any_values import MarkedType, dtype_name, marked_type, pack_value, reader_of, unpack_value

ColumnCode = Any
CodedColumn = tuple[pa.Array, ColumnCode]
"""A column, and how to read it."""

_WIDEST = 1024
"""Upper bound of the columns that one column becomes."""
_DEEPEST, _DEEPEST_FIELDS = 8, 2
"""Levels of lists, and of tuples, lists and dicts whose places are columns: below them values are objects."""
_UNLIKE = (pa.ArrowException, OverflowError, UnicodeError)
"""Errors of values that no column of their type can hold, such as integers beyond 64 bits."""
_NUMBERS = "biuf"
"""Kinds of NumPy's types that Arrow has."""


def to_column(values: Sequence[Any], depth: int = 0) -> CodedColumn:
    """Returns values as a column.

    Raises:
        UnfitValueError: the encoding does not have the type of a value.
    """
    found = _alike(values, depth)
    if found is None:
        return pa.array([pack_value(value) for value in values], pa.large_binary()), "object"
    return found


def from_column(column: pa.Array, kind: ColumnCode) -> list[Any]:
    """Returns the values of a column."""
    if isinstance(kind, str):
        return _READ[kind](column)
    if not column.null_count:
        return _READ[kind[0]](column, *kind[1:])
    there = iter(_READ[kind[0]](column.drop_null(), *kind[1:]))
    return [next(there) if valid else None for valid in column.is_valid().to_pylist()]


def _alike(values: Sequence[Any], depth: int) -> CodedColumn | None:
    """Returns a column; None if the values are not alike."""
    types = _types(values)
    has_none = type(None) in types
    types.discard(type(None))
    if not types:
        return pa.nulls(len(values)), "none"
    if len(types) > 1 or depth > _DEEPEST:
        return None
    (kind,) = types
    try:
        if kind in _SINGLE:
            return _single(kind, values, has_none)
        if has_none:
            return _with_none(values, depth)
        return _composed(kind, values, depth)
    except _UNLIKE:
        return None


def _types(values: Sequence[Any]) -> set[type]:
    """Returns the types of values: by a count, which takes two thirds of the time, if it is one alone."""
    kind = type(values[0]) if values else type(None)
    return {kind} if countOf(map(type, values), kind) == len(values) else set(map(type, values))


def _with_none(values: Sequence[Any], depth: int) -> CodedColumn | None:
    found = _alike([value for value in values if value is not None], depth)
    if found is None:
        return None
    places = accumulate((value is not None for value in values), initial=0)
    taken = [None if value is None else place for value, place in zip(values, places, strict=False)]
    return found[0].take(pa.array(taken, pa.int64())), found[1]


def _composed(kind: type, values: Sequence[Any], depth: int) -> CodedColumn | None:
    if kind in (tuple, list):
        return _sequences(kind.__name__, values, depth)
    if kind is dict:
        return _dicts(values, depth)
    if kind is np.ndarray:
        return _arrays(values)
    if issubclass(kind, np.generic):
        return _numbers(kind, values)
    marked = marked_type(kind)
    return None if marked is None or not marked.in_columns else _marked(marked, values, depth)


# ---- single values ----


def _single(kind: type, values: Sequence[Any], has_none: bool) -> CodedColumn:
    code, arrow = _SINGLE[kind]
    if code is None or has_none:
        return pa.array(values, arrow), kind.__name__
    flat = array.array(code)  # twice as fast as Arrow
    flat.fromlist(values if isinstance(values, list) else list(values))
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(flat)]), kind.__name__


_SINGLE: dict[type, tuple[str | None, pa.DataType]] = {
    int: ("q", pa.int64()),
    float: ("d", pa.float64()),
    bool: (None, pa.bool_()),
    str: (None, pa.large_string()),
    bytes: (None, pa.large_binary()),
    bytearray: (None, pa.large_binary()),
}
"""Types -> their codes in Python's `array`, if there is one, and in Arrow."""


def _plain_values(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist() if column.null_count else column.to_numpy(zero_copy_only=False).tolist()
    return found


def _listed(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _byte_arrays(column: pa.Array) -> list[Any]:
    return [None if value is None else bytearray(value) for value in column.to_pylist()]


def _objects(column: pa.Array) -> list[Any]:
    return [unpack_value(value.as_buffer()) for value in column]


# ---- lists, tuples, dicts ----


def _sequences(name: str, values: Sequence[Any], depth: int) -> CodedColumn | None:
    lengths = array.array("q", map(len, values))
    if len(set(map(type, values[0])) - {type(None)}) <= 1:
        found = _long_lists(values) or _alike(list(chain.from_iterable(values)), depth + 1)
        if found is not None:
            return _lists_of(found[0], lengths), [name, found[1]]
    if depth <= _DEEPEST_FIELDS and 0 < lengths[0] <= _WIDEST and len(set(lengths)) == 1:
        return _fields(name, None, list(zip(*values, strict=True)), depth)
    return None


def _long_lists(values: Sequence[list[Any] | tuple[Any, ...]]) -> CodedColumn | None:
    """Returns the numbers of long lists or tuples; one by one, while it is in the cache, takes half the time."""
    kind = type(values[0][0]) if len(values[0]) >= LONG else None
    if kind not in (int, float):
        return None
    code, arrow = _SINGLE[kind]
    flat, at = np.empty(sum(map(len, values)), code), 0
    for value in values:
        found = alike_numbers(value)
        if found is None and countOf(map(type, value), kind) < len(value):
            return None
        flat[at : at + len(value)] = array.array(code or "", value) if found is None else found
        at += len(value)
    return pa.Array.from_buffers(arrow, len(flat), [None, pa.py_buffer(flat)]), kind.__name__


def _lists_of(items: pa.Array, lengths: Iterable[int]) -> pa.Array:
    offsets = array.array("q", accumulate(lengths, initial=0))
    kind = pa.large_list(items.type)
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets)], children=[items])


def _dicts(values: Sequence[dict[Any, Any]], depth: int) -> CodedColumn | None:
    names = tuple(values[0])
    if not 0 < len(names) <= _WIDEST or len(set(map(tuple, values))) > 1:
        return None
    if set(map(type, chain.from_iterable(values))) != {str}:  # a str of NumPy's equals one of Python's
        return None
    return _fields("dict", names, list(zip(*map(dict.values, values), strict=True)), depth)


def _fields(name: str, names: Sequence[str] | None, columns: Sequence[Sequence[Any]], depth: int) -> CodedColumn | None:
    found = _struct(columns, depth)
    return None if found is None else (found[0], ["fields", name, names, found[1]])


def _marked(marked: MarkedType, values: Sequence[Any], depth: int) -> CodedColumn | None:
    heads = {None} if marked.head is None else set(map(marked.head, values))
    parts = list(map(marked.parts, values))
    if len(heads) > 1 or not 0 < len(parts[0]) <= _WIDEST or len(set(map(len, parts))) > 1:
        return None
    found = _struct(list(zip(*parts, strict=True)), depth)
    return None if found is None else (found[0], ["marked", marked.code, heads.pop(), found[1]])


def _struct(columns: Sequence[Sequence[Any]], depth: int) -> tuple[pa.Array, list[ColumnCode]] | None:
    """Returns columns as one. In a row, some may be of objects; what is within a row is rather one object itself."""
    made = [_alike(column, depth + 1) if depth else to_column(column, 1) for column in columns]
    there = [column for column in made if column is not None]
    if len(there) < len(made):
        return None
    arrays, names = [one for one, _ in there], [str(i) for i in range(len(there))]
    return pa.StructArray.from_arrays(arrays, names), [kind for _, kind in there]


def _read_lists(column: pa.Array, items: ColumnCode) -> list[Any]:
    flat, starts = column.flatten(), _starts(column)
    if items in ("int", "float") and not flat.null_count and starts[-1] > LONG * len(column):
        numbers = flat.to_numpy()
        return [numbers[start:end].tolist() for start, end in pairwise(starts)]
    flat = from_column(flat, items)
    return [flat[start:end] for start, end in pairwise(starts)]


def _read_tuples(column: pa.Array, items: ColumnCode) -> list[Any]:
    flat, starts = from_column(column.flatten(), items), _starts(column)
    width = starts[1] if len(starts) > 1 else 0
    if width and starts == list(range(0, len(flat) + 1, width)):
        return list(zip(*[iter(flat)] * width, strict=True))
    return [tuple(flat[start:end]) for start, end in pairwise(starts)]


def _starts(column: pa.Array) -> list[int]:
    """Returns where each list begins and the last one ends."""
    offsets = column.offsets.to_numpy()
    starts: list[int] = (offsets - offsets[0]).tolist()
    return starts


def _read_fields(column: pa.Array, name: str, names: Sequence[str] | None, kinds: Sequence[ColumnCode]) -> list[Any]:
    rows = _rows(column, kinds)
    if name == "tuple":
        return list(rows)
    return list(map(list, rows)) if names is None else [dict(zip(names, row, strict=True)) for row in rows]


def _read_marked(column: pa.Array, code: int, head: Any, kinds: Sequence[ColumnCode]) -> list[Any]:
    return list(map(reader_of(code, head), _rows(column, kinds)))


def _rows(column: pa.Array, kinds: Sequence[ColumnCode]) -> Any:
    return zip(*map(from_column, column.flatten(), kinds), strict=True)


# ---- NumPy ----


def _numbers(kind: type, values: Sequence[Any]) -> CodedColumn | None:
    dtype = np.dtype(kind)
    if dtype.kind not in _NUMBERS or dtype.itemsize > 8:
        return None
    return pa.array(np.array(values, dtype)), ["number", dtype_name(dtype)]


def _arrays(values: Sequence[np.ndarray[Any, Any]]) -> CodedColumn | None:
    (dtype, *others), (shape, *shapes) = set(map(attrgetter("dtype.char"), values)), set(map(np.shape, values))
    dtype = values[0].dtype
    if others or dtype.kind not in _NUMBERS or dtype.itemsize > 8 or not all(one.dtype.isnative for one in values):
        return None
    if shapes and (len(shape) != 1 or any(len(one) != 1 for one in shapes)):
        return None
    flat = pa.array(np.concatenate([value.reshape(-1) for value in values]))
    return _lists_of(flat, map(attrgetter("size"), values)), ["array", dtype_name(dtype), None if shapes else shape]


def _read_numbers(column: pa.Array, dtype: str) -> list[Any]:
    return list(column.to_numpy(zero_copy_only=False).view(dtype))  # also of two types that are the same integers


def _read_arrays(column: pa.Array, dtype: str, shape: Sequence[int] | None) -> list[Any]:
    flat, starts = column.flatten().to_numpy(zero_copy_only=False).view(dtype), _starts(column)
    parts = [flat[start:end].copy() for start, end in pairwise(starts)]  # each has memory of its own, to be written to
    return parts if shape is None else [part.reshape(shape) for part in parts]


_READ: dict[str, Callable[..., list[Any]]] = {
    **dict.fromkeys(("int", "float", "bool"), _plain_values),
    **dict.fromkeys(("none", "str", "bytes"), _listed),
    "bytearray": _byte_arrays,
    "object": _objects,
    "list": _read_lists,
    "tuple": _read_tuples,
    "fields": _read_fields,
    "marked": _read_marked,
    "number": _read_numbers,
    "array": _read_arrays,
}
