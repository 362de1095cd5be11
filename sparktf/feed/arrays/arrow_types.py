"""Classifies Arrow types for features, and makes values that replace nulls."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.feature import Feature
from sparktf.predicate import FillValue

_FILLED: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pt.is_uint8, pa.int16()),
    (pt.is_uint16, pa.int32()),
    (pt.is_uint32, pa.int64()),
    (pt.is_uint64, pa.decimal128(20, 0)),
    (pt.is_float16, pa.float32()),
    (pt.is_fixed_size_binary, pa.binary()),
    (pt.is_date, pa.date32()),
    (pt.is_time, pa.time64("us")),
    (pt.is_duration, pa.duration("us")),
)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type, dictionary-encoded or not, becomes a string tensor."""
    kind = _value_type(kind)
    return bool(pt.is_string(kind) or pt.is_large_string(kind)) or is_binary(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type, dictionary-encoded or not, holds bytes in each row."""
    kind = _value_type(kind)
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds a list in each row."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def fits(feature: Feature, kind: pa.DataType) -> bool:
    """Whether a feature can be made from a column of this Arrow type: text from text, numbers from numbers or bytes."""
    holds_text = is_text(kind.value_type if is_list(kind) else kind)
    is_bytes = (bool(feature.shape) or feature.ragged) and is_binary(kind)
    return feature.is_mask or is_bytes or holds_text == feature.is_text


def takes_bytes(feature: Feature, kind: pa.DataType) -> bool:
    """Whether a feature is made from the bytes of a binary column, as numbers."""
    return not feature.is_text and not feature.is_mask and is_binary(kind)


def filled_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which nulls of a non-list type are filled: Spark's, which files may store in several ways."""
    kind = _value_type(kind)
    if pt.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return next((wide for test, wide in _FILLED if test(kind)), kind)


def fill_scalar(value: FillValue, kind: pa.DataType) -> pa.Scalar:
    """Returns a `fill_null` value as a scalar of the type in which a column's (list) values are filled.

    Raises:
        ValueError: the value does not fit the type.
    """
    kind = filled_type(kind.value_type if is_list(kind) else kind)
    if pt.is_boolean(kind):
        fits = isinstance(value, bool)
    elif is_text(kind) or (pt.is_temporal(kind) and not pt.is_duration(kind)):
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits:
        raise ValueError(f"{value!r} is not a value of type {kind}")
    try:
        if pt.is_decimal(kind):
            return pa.scalar(Decimal(str(value)), kind)
        if pt.is_integer(kind) and isinstance(value, int):
            return pa.scalar(value, kind)  # Arrow's cast accepts nothing beyond int64
        # Arrow casts all types from text, except times.
        return pa.scalar(datetime.time.fromisoformat(str(value)) if pt.is_time(kind) else value).cast(kind)
    except (pa.ArrowException, ArithmeticError) as error:
        raise ValueError(f"{value!r} is not a value of type {kind}: {error}") from error


def zero_scalar(kind: pa.DataType) -> pa.Scalar:
    """Returns the value for a masked null: zero, 1970, midnight, false, or an empty string."""
    kind = filled_type(kind)
    if is_text(kind) or pt.is_decimal(kind):
        return fill_scalar("" if is_text(kind) else 0, kind)
    return pa.scalar(0, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def in_micros(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Converts timestamps and durations from nanoseconds, which Spark lacks, to microseconds; rounded down, as in Spark
    (Arrow's cast rounds towards 1970).
    """
    kind = values.type
    if not (pt.is_timestamp(kind) or pt.is_duration(kind)) or kind.unit != "ns":
        return values
    counts = values.cast(pa.int64())
    cut = pc.divide(counts, 1000)
    down = pc.less(pc.subtract(counts, pc.multiply(cut, 1000)), 0).cast(pa.int64())
    return pc.subtract(cut, down).cast(pa.timestamp("us", kind.tz) if pt.is_timestamp(kind) else pa.duration("us"))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind
