"""Rows of an RDD (dicts, Rows or tuples) -> Arrow record batches, many rows at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparktf.errors import BadValueError

_BATCH_ROWS = 4096

Columns = Callable[[Sequence[Any]], list[Sequence[Any]]]
"""Rows -> for each field of the schema, its values."""


def to_batches(rows: Iterable[Any], schema: pa.Schema, names: Sequence[str], split: int) -> Iterator[pa.RecordBatch]:
    """Returns the rows in record batches.

    Args:
        schema: The fields to take.
        names: All fields of the declared schema, by which tuples are read.
        split: Partition of the RDD, for messages.

    Raises:
        BadValueError: a value is not of its declared type; the message names partition, row and column.
    """
    iterator, first_row = iter(rows), 0
    columns_of: Columns | None = None
    while batch := list(itertools.islice(iterator, _BATCH_ROWS)):
        if columns_of is None:
            columns_of = _columns(batch[0], schema.names, names, split)
        try:
            values = columns_of(batch)
            arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise _refused(batch, first_row, columns_of, schema, split) from error
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        first_row += len(batch)


def _columns(row: Any, wanted: Sequence[str], names: Sequence[str], split: int) -> Columns:
    """Returns what takes the wanted fields out of rows of this row's kind."""
    if isinstance(row, dict):
        return lambda rows: [[row.get(name) for row in rows] for name in wanted]
    if not isinstance(row, (tuple, list)):
        raise BadValueError(
            f"partition {split} of the RDD: rows are of type {type(row).__name__}, not dict, Row or tuple"
        )
    # A Row names its fields itself.
    fields = list(getattr(row, "__fields__", names))
    missing = [name for name in wanted if name not in fields]
    if missing:
        raise BadValueError(f"partition {split} of the RDD: its rows have no field {missing[0]!r}")
    positions = [fields.index(name) for name in wanted]

    def take(rows: Sequence[Any]) -> list[Sequence[Any]]:
        columns = list(zip(*rows, strict=True))
        if len(columns) != len(fields):
            raise ValueError("rows of another length")
        return [columns[i] for i in positions]

    return take


def _refused(batch: Sequence[Any], first_row: int, columns_of: Columns, schema: pa.Schema, split: int) -> BadValueError:
    """Returns the error for the first row that does not fit; looked for row by row only here."""
    for i, row in enumerate(batch):
        where = f"partition {split} of the RDD, row {first_row + i}"
        try:
            values = columns_of([row])
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            return BadValueError(f"{where}: a {type(row).__name__} of another shape than the rows before")
        for field, column in zip(schema, values, strict=True):
            try:
                pa.array(column, field.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                return BadValueError(f"{where}: column {field.name!r}: {column[0]!r} is no value of type {field.type}")
    return BadValueError(
        f"partition {split} of the RDD, rows {first_row} to {first_row + len(batch)}: of several shapes"
    )
