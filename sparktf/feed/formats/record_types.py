"""The types of columns that features of TFRecord files become."""

from __future__ import annotations

import pyarrow as pa

from sparktf.feed.arrays.arrow_types import is_list

_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_ARRAY = "array<"


def record_type(name: str) -> pa.DataType:
    """Returns the Arrow type of a type of Spark's: one of the above, or an array of it.

    Raises:
        KeyError: there is no such type.
    """
    if name.startswith(_ARRAY) and name.endswith(">"):
        return pa.list_(_TYPES[name.removeprefix(_ARRAY)[:-1]])
    return _TYPES[name]


def record_type_name(kind: pa.DataType) -> str:
    """Returns Spark's name of a type that features may become.

    Raises:
        KeyError: they may not.
    """
    return f"{_ARRAY}{_NAMES[kind.value_type]}>" if is_list(kind) else _NAMES[kind]
