"""Rows, vectors and matrices of Spark in the encoding of any values (`any_values`).

Spark itself is imported where such a value is first made: by a function of another package's program that is fed some.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any

from sparktf.feed.channel.any_values import MarkedType, add_type

ROW = "pyspark.sql.types.Row"


@cache
def _class(name: str) -> Any:
    module, _, kind = name.rpartition(".")
    return getattr(importlib.import_module(module), kind)


def _fields(row: Any) -> tuple[str, ...] | None:
    fields = row.__dict__.get("__fields__")
    return None if fields is None else tuple(fields)


def _row_reader(fields: Sequence[str] | None) -> Callable[[Sequence[Any]], Any]:
    """Returns the function that makes Rows of their values; one without names may itself make others."""
    make = _class(ROW)
    if fields is None:
        return lambda values: make(*values)
    names = list(fields)

    def row(values: Sequence[Any]) -> Any:
        made = make(*values)
        made.__fields__ = names
        return made

    return row


def _reader(name: str, head: Any) -> Callable[[Sequence[Any]], Any]:
    make = _class(name)
    return lambda parts: make(*parts)


_LINEAR: dict[str, Callable[[Any], Sequence[Any]]] = {
    "DenseVector": lambda vector: (vector.array,),
    "SparseVector": attrgetter("size", "indices", "values"),
    "DenseMatrix": attrgetter("numRows", "numCols", "values", "isTransposed"),
    "SparseMatrix": attrgetter("numRows", "numCols", "colPtrs", "rowIndices", "values", "isTransposed"),
}
"""Spark's types of linear algebra, which are there twice: with Spark ML, and with MLlib before it."""

add_type(ROW, MarkedType(32, tuple, _row_reader, head=_fields, in_columns=True))
for _first, _module in ((33, "pyspark.ml.linalg"), (37, "pyspark.mllib.linalg")):
    for _code, (_name, _parts) in enumerate(_LINEAR.items(), _first):
        _whole = f"{_module}.{_name}"
        add_type(_whole, MarkedType(_code, _parts, partial(_reader, _whole), in_columns=True))
