"""Converts rows of Python objects into Arrow record batches and back, many rows at a time.

A row is a tuple (also a named one), a list, a dict, or a single value. Its values are numbers, booleans, strings,
bytes, None, and lists, tuples and arrays of these. The schema's metadata record the Python types of rows and columns.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

_SHAPE = b"sparktf.rows"
_MADE_ANEW: dict[str | None, Any] = {"tuple": tuple, "bytearray": bytearray}
"""Types that Arrow returns as a list or as bytes."""
_SINGLE, _TUPLE, _NAMED, _LIST, _DICT = "single", "tuple", "named", "list", "dict"


class UnfitRowsError(TypeError):
    """Rows differ in shape, or have values that no column can hold."""


def rows_to_batch(rows: Sequence[Any]) -> pa.RecordBatch:
    """Converts at least one row.

    Raises:
        UnfitRowsError: the rows do not fit into columns.
    """
    first = rows[0]
    if isinstance(first, Mapping):
        shape, names = _DICT, [str(name) for name in first]
        if any(not isinstance(row, Mapping) or list(row) != list(first) for row in rows):
            raise UnfitRowsError("rows are dicts with different keys: give all of them the same keys")
        columns: list[Sequence[Any]] = [[row[name] for row in rows] for name in first]
    elif isinstance(first, (tuple, list)):
        shape, names = (_LIST if isinstance(first, list) else _TUPLE), [str(i) for i in range(len(first))]
        fields = getattr(first, "__fields__", None) or getattr(first, "_fields", None)
        if fields:  # a Spark Row, or a namedtuple
            shape, names = _NAMED, list(fields)
        try:
            columns = list(zip(*rows, strict=True))
        except (TypeError, ValueError) as error:
            raise UnfitRowsError(f"rows have different lengths or kinds: {error}") from error
        if len(columns) != len(names):
            raise UnfitRowsError("rows have different lengths")
        columns = columns or [[None] * len(rows)]
    else:
        shape, names, columns = _SINGLE, ["value"], [rows]
    made = [_column(name, column) for name, column in zip(names or [""], columns, strict=True)]
    told = json.dumps({"shape": shape, "width": len(names), "kinds": [kind for _, kind in made]})
    arrays = [array for array, _ in made]
    columns_of = [pa.field(name, array.type) for name, array in zip(names or [""], arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns_of, metadata={_SHAPE: told.encode()}))


def batch_to_rows(batch: pa.RecordBatch) -> list[Any]:
    """Returns the rows of `rows_to_batch`: numbers as Python's, nested arrays as NumPy's."""
    told = json.loads(batch.schema.metadata[_SHAPE])
    if not told["width"]:
        return [() if told["shape"] == _TUPLE else [] if told["shape"] == _LIST else {}] * batch.num_rows
    columns = [_values(column, kind) for column, kind in zip(batch.columns, told["kinds"], strict=True)]
    if told["shape"] == _SINGLE:
        return columns[0]
    rows = zip(*columns, strict=True)
    if told["shape"] == _TUPLE:
        return list(rows)
    if told["shape"] == _LIST:
        return [list(row) for row in rows]
    names = batch.schema.names
    if told["shape"] == _NAMED:
        return list(map(_named(tuple(names))._make, rows))
    return [dict(zip(names, row, strict=True)) for row in rows]


@cache
def _named(names: tuple[str, ...]) -> Any:
    """Returns a class of named rows; a name that is no valid attribute becomes "_" and its position."""
    return namedtuple("Row", names, rename=True)


def _column(name: str, values: Sequence[Any]) -> tuple[pa.Array, Any]:
    """Returns a column, and how to restore its values."""
    there = next((value for value in values if value is not None), None)
    try:
        if isinstance(there, np.ndarray):
            shape = there.shape
            if len(shape) != 1 and any(value is None or value.shape != shape for value in values):
                raise UnfitRowsError(f"column {name} has arrays of different shapes")
            flat = [None if value is None else value.reshape(-1) for value in values]
            return pa.array(flat), {"array": str(there.dtype), "shape": list(shape) if len(shape) != 1 else None}
        array = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UnfitRowsError):
            raise
        said = str(error).partition("\n")[0]
        raise UnfitRowsError(
            f"column {name} cannot be made: {said}; give it numbers, strings or bytes, or lists or arrays of these, of "
            "one type"
        ) from error
    if pt.is_struct(array.type) or pt.is_map(array.type):
        raise UnfitRowsError(f"column {name} has dicts as values: make each of their fields a column")
    return array, type(there).__name__ if isinstance(there, (tuple, bytearray)) else None


def _values(column: pa.Array, kind: Any) -> list[Any]:
    if isinstance(kind, dict):
        shape = kind["shape"]
        found = [None if value is None else np.array(value, kind["array"]) for value in column.to_pylist()]
        return [value if value is None or shape is None else value.reshape(shape) for value in found]
    if not column.null_count and (pt.is_floating(column.type) or pt.is_integer(column.type)):
        values: list[Any] = column.to_numpy().tolist()
        return values
    values = column.to_pylist()
    made = _MADE_ANEW.get(kind)
    return values if made is None else [value if value is None else made(value) for value in values]
