"""Columns without any value in a file: pandas writes them with type null, whatever their type on other days."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as pt

from sparktf.feed.arrays.arrow_types import is_list

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.*)>")


def arrow_type(spark: str) -> pa.DataType:
    """Returns the Arrow type of a column of a Spark type.

    Raises:
        KeyError: no tensor can be made from it.
    """
    if found := _ARRAY.fullmatch(spark):
        return pa.list_(arrow_type(found[1]))
    if found := _DECIMAL.fullmatch(spark):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES[spark]


def is_untyped(kind: pa.DataType) -> bool:
    """Whether a column of the type has only nulls, also in lists and in fields of structs."""
    if is_list(kind):
        return is_untyped(kind.value_type)
    return bool(pt.is_null(kind))


def has_untyped(kind: pa.DataType) -> bool:
    """Whether the type, or a field in it, has only nulls."""
    return any(has_untyped(field.type) for field in kind) if pt.is_struct(kind) else is_untyped(kind)


def merged_type(kind: pa.DataType, other: pa.DataType | None) -> pa.DataType:
    """Returns a type whose null parts are replaced by those of another file's type."""
    if other is None:
        return kind
    if pt.is_struct(kind) and pt.is_struct(other):
        there = {field.name: field.type for field in other}
        return pa.struct([field.with_type(merged_type(field.type, there.get(field.name))) for field in kind])
    return other if is_untyped(kind) and (pt.is_null(kind) or is_list(other)) else kind


def typed(columns: Mapping[str, pa.ChunkedArray], types: Mapping[str, str]) -> dict[str, pa.ChunkedArray]:
    """Casts columns without a value to their types in other files: `types`, column -> Spark type."""
    return {
        name: column.cast(arrow_type(types[name])) if name in types and is_untyped(column.type) else column
        for name, column in columns.items()
    }
