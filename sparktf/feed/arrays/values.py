"""Converts values of an Arrow column to NumPy, and finds those that NumPy or a dtype cannot represent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from sparktf.feature import Feature
from sparktf.feed.arrays.arrow_types import in_micros, is_list
from sparktf.feed.arrays.columns import Array
from sparktf.feed.arrays.decimals import decimal_floats
from sparktf.feed.arrays.lists import Refuse

# Rows packed at a time: the target stays in the L2 cache while all columns are written.
_PACK_ROWS = 8192

_LIMIT = (1 << 63) - 1
_MICROS = {"s": 1_000_000, "ms": 1_000}
_UNITS = {"s": "seconds", "ms": "milliseconds"}
_DAY_MS = 86_400_000
_MAX_DAY = (1 << 31) - 1  # Dates are int32 days


def numbers(array: pa.Array, dtype: np.dtype[Any]) -> Array:
    """Returns values without nulls before they are cast to a dtype.

    Returns:
        Dates as int32 days, times, timestamps and intervals as int64 microseconds, decimals as float64.
    """
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    array = in_micros(array)
    kind = array.type
    if pt.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False).view(pa.int64())
    elif pt.is_time(kind) or pt.is_duration(kind):
        array = array.cast(pa.time64("us") if pt.is_time(kind) else pa.duration("us"), safe=False).view(pa.int64())
    elif pt.is_date(kind):
        array = array.cast(pa.date32()).view(pa.int32())
    elif pt.is_decimal(kind):
        return decimal_floats(array, dtype)
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def too_far(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Returns which timestamps and durations overflow int64 microseconds, bool [n]; None for none.

    A file may have them in seconds or milliseconds, whose range is a million or a thousand times as large.
    """
    kind = array.type
    if pt.is_date64(kind):
        limit = _MAX_DAY * _DAY_MS
    elif (pt.is_timestamp(kind) or pt.is_duration(kind)) and kind.unit in _MICROS:
        limit = _LIMIT // _MICROS[kind.unit]
    else:
        return None
    counts = array.view(pa.int64()).fill_null(0).to_numpy()
    far: npt.NDArray[np.bool_] = (counts > limit) | (counts < -limit)
    return far if far.any() else None


def far_reason(array: pa.Array, at: int) -> str:
    """Returns why a value that is `too_far` is refused."""
    count = array.view(pa.int64())[at].as_py()
    if pt.is_date64(array.type):
        return f"{count} milliseconds since 1970 do not fit into a date of 32 bits"
    since = "" if pt.is_duration(array.type) else " since 1970"
    return f"{count} {_UNITS[array.type.unit]}{since} do not fit into 64 bits as microseconds"


def plain_bytes(array: pa.Array) -> pa.Array:
    """Returns bytes of fixed size, or lists of them, as bytes of any size, since fill values have another size."""
    kind = array.type
    if pt.is_dictionary(kind) and pt.is_fixed_size_binary(kind.value_type):
        return array.dictionary_decode().cast(pa.binary())
    if pt.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    if is_list(kind) and pt.is_fixed_size_binary(kind.value_type):
        return array.cast(pa.large_list(pa.binary()) if pt.is_large_list(kind) else pa.list_(pa.binary()))
    return array


def write_side_by_side(columns: Sequence[Array], out: Array) -> None:
    """Writes columns [rows] side by side into `out`, [rows, n_columns]."""
    for start in range(0, len(out), _PACK_ROWS):
        stop = start + _PACK_ROWS
        for i, column in enumerate(columns):
            out[start:stop, i] = column[start:stop]


def fitting(values: Array, feature: Feature, refuse: Refuse) -> Array:
    """Returns the values, cast if a cast could lose more than digits: to integers and booleans."""
    dtype = feature.numpy_dtype
    if dtype.kind == "f" or np.can_cast(values.dtype, dtype):
        return values
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
        wrong = cast != values
    if wrong.any():
        rows = np.flatnonzero(wrong.reshape(len(values), -1).any(axis=1))
        refuse(
            rows, lambda i: f"{first_wrong(values, wrong, rows[i])} does not fit dtype {feature.dtype} of {feature.key}"
        )
    return cast


def first_wrong(values: Array, wrong: Array, row: int) -> Any:
    """Returns the first wrong value of a row."""
    return values[row][wrong[row]].flat[0]
