"""Splits of any format: the rows of a stream, and the partition's columns."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sparktf.feed.arrays.columns import Array
from sparktf.sequence import Draw, Keep, PartitionValue, Split, generator
from sparktf.storage.base import Storage

OpenStorage = Callable[[str], Storage]
"""Path -> its storage; called for each file, so that renewed credentials are used."""

PARTITION_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "void": pa.null(),
}
"""Spark type of a partition column -> Arrow type; decimals aside."""

_DECIMAL = re.compile(r"decimal\((\d+),0\)")
_ONLY_SPARK = {"time(6)": pa.time64("us")}


def partition_type(kind: str) -> pa.DataType:
    """Returns the Arrow type of a partition column of a Spark type.

    Raises:
        KeyError: partition columns cannot have that type.
    """
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), 0)
    return {**PARTITION_TYPES, **_ONLY_SPARK}[kind]


def repeated(value: PartitionValue, kind: str, rows: int) -> pa.Array:
    """Returns a partition value as a column [rows] of its Arrow type, for a `kind` of `FeedSpec.partition_types`.

    Dates are in ISO format, decimals are text, timestamps are microseconds.
    """
    arrow_type = partition_type(kind)
    return pa.nulls(rows, arrow_type) if value is None else pa.repeat(pa.scalar(value).cast(arrow_type), rows)


def held_out_rows(split: Split, seed: int) -> Array:
    """Returns the selected rows of a row group that the validation fraction draws, sorted: int64 [split.held_out]."""
    draw = generator(Draw.HELD_OUT, seed, split.file, split.row_group)
    return np.sort(draw.choice(split.selected, split.held_out, replace=False, shuffle=False))


def kept_rows(split: Split, seed: int) -> Array | None:
    """Returns the selected rows of a row group in the split's stream, sorted: int64 [split.rows]; None for all."""
    if split.keep is Keep.ALL:
        return None
    held_out = held_out_rows(split, seed)
    if split.keep is Keep.VALIDATION:
        return held_out
    return np.delete(np.arange(split.selected), held_out)
