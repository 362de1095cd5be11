"""Converts rows of an RDD (dicts, Rows or tuples) into Arrow record batches, many rows at a time."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from sparktf.errors import BadValueError
from sparktf.executor.row_values import UNFIT, field_columns, to_array

_CHUNK_ROWS = 256
"""Rows converted at a time. Python's garbage collector scans all live objects again and again: 4096 rows of 17 values
took five times as long as 16 times 256."""
_BATCH_BYTES = 1 << 20
_BATCH_ROWS = 1 << 14


def to_batches(rows: Iterable[Any], schema: pa.Schema, names: Sequence[str], split: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows in record batches.

    Args:
        schema: The fields to take.
        names: All fields of the declared schema, in the order of tuples.
        split: Partition of the RDD, for messages.

    Raises:
        BadValueError: a value does not have its declared type; the message names partition, row and column.
    """
    chunks: list[pa.RecordBatch] = []
    n = nbytes = 0
    for chunk in _chunks(rows, schema, names, split):
        chunks.append(chunk)
        n, nbytes = n + chunk.num_rows, nbytes + chunk.nbytes
        if nbytes >= _BATCH_BYTES or n >= _BATCH_ROWS:
            yield pa.concat_batches(chunks)
            chunks, n, nbytes = [], 0, 0
    if chunks:
        yield pa.concat_batches(chunks)


def to_tuples(rows: Iterable[Any], schema: pa.Schema, split: int) -> Iterator[tuple[Any, ...]]:
    """Yields the rows in Spark's form: tuples in the order of the schema, of exactly its types.

    Raises:
        BadValueError: see `to_batches`.
    """
    for batch in to_batches(rows, schema, schema.names, split):
        yield from zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True)


def _chunks(rows: Iterable[Any], schema: pa.Schema, names: Sequence[str], split: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows a few at a time; see `to_batches`."""
    iterator, first_row = iter(rows), 0
    while chunk := list(itertools.islice(iterator, _CHUNK_ROWS)):
        try:
            columns = field_columns(chunk, schema.names, names)
            arrays = [to_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        except UNFIT as error:
            raise _refused(chunk, first_row, schema, names, split) from error
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        first_row += len(chunk)


def _refused(
    batch: Sequence[Any], first_row: int, schema: pa.Schema, names: Sequence[str], split: int
) -> BadValueError:
    """Finds the first row that does not fit; only here rows are examined one by one."""
    seen: list[list[Any]] = [[] for _ in schema]
    for i, row in enumerate(batch):
        where = f"partition {split} of the RDD, row {first_row + i}"
        reason = _shape_reason(row, schema.names, names)
        if reason:
            return BadValueError(f"{where}: {reason}")
        try:
            # The first row fits, or it would be reported already: beside it, a row of another kind fails.
            columns = field_columns([batch[0], row], schema.names, names)
        except UNFIT:
            return BadValueError(f"{where}: a {type(row).__name__}, but the first row is a {type(batch[0]).__name__}")
        for field, (_, value), values in zip(schema, columns, seen, strict=True):
            values.append(value)
            reason = _value_reason(field.name, value, field.type) or _mixed_reason(field.name, values, field.type)
            if reason:
                return BadValueError(f"{where}: {reason}")
    return BadValueError(f"partition {split} of the RDD, rows {first_row} to {first_row + len(batch)} do not fit")


def _shape_reason(row: Any, wanted: Sequence[str], names: Sequence[str]) -> str:
    """Returns the error of a row as a whole; "" for none."""
    kind = type(row).__name__
    if isinstance(row, dict):
        return ""
    if not isinstance(row, (tuple, list)):
        return f"the row is of type {kind}, not a dict, Row or tuple"
    fields = getattr(row, "__fields__", names)
    missing = [name for name in wanted if name not in fields]
    if missing:
        return f"the {kind} has no field {missing[0]!r}"
    if len(row) != len(fields):
        return f"the {kind} has {len(row)} values for {len(fields)} fields"
    return ""


def _value_reason(name: str, value: Any, kind: pa.DataType) -> str:
    """Returns the error of a value; "" for none. A field of a struct is named with dots."""
    try:
        to_array([value], kind)
    except UNFIT:
        pass
    else:
        return ""
    if pt.is_struct(kind):
        fields = [field.name for field in kind]
        shape = _shape_reason(value, fields, fields)
        if shape:
            return f"column {name!r}: {shape}"
        columns = zip(kind, field_columns([value], fields, fields), strict=True)
        reasons = (_value_reason(f"{name}.{field.name}", column[0], field.type) for field, column in columns)
        found = next(filter(None, reasons), "")
        if found:
            return found
    return f"column {name!r}: {_shown(value)} is not a value of type {kind}"


def _mixed_reason(name: str, values: Sequence[Any], kind: pa.DataType) -> str:
    """Returns why the last value does not fit the others, although each is valid by itself; "" if it does.

    That happens with structs if only some have named fields.
    """
    try:
        to_array(values, kind)
    except UNFIT:
        pass
    else:
        return ""
    there = [value for value in values if value is not None]
    mixed = f"column {name!r}: a {type(there[-1]).__name__}, but other values are {type(there[0]).__name__}"
    if not pt.is_struct(kind):
        return f"column {name!r}: {_shown(there[-1])} is of another type than the other values"
    fields = [field.name for field in kind]
    try:
        columns = field_columns(there, fields, fields)
    except UNFIT:
        return mixed
    reasons = (
        _mixed_reason(f"{name}.{field.name}", column, field.type) for field, column in zip(kind, columns, strict=True)
    )
    return next(filter(None, reasons), mixed)


def _shown(value: Any) -> str:
    return " ".join(reprlib.repr(value).split())
