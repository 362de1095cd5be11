"""The column types of TFRecord features."""

from __future__ import annotations

import pyarrow as pa

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
_ARRAY = "array<"


def record_type(name: str) -> pa.DataType:
    """Returns the Arrow type of one of Spark's types above, or of an array of one.

    Raises:
        KeyError: there is no such type.
    """
    if name.startswith(_ARRAY) and name.endswith(">"):
        return pa.list_(_TYPES[name.removeprefix(_ARRAY)[:-1]])
    return _TYPES[name]
