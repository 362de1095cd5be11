"""Arrow columns of one row group -> tensors, with every check of a value. No row is touched in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.errors import BadValueError
from sparktf.feature import Feature, Kind
from sparktf.feed.columns import Array, Columns, Strings, object_array
from sparktf.feed.nested import column_of

FillValue = bool | int | float | str

# Rows packed at a time: the target of one such piece stays in the second-level cache while column after column goes in.
_PACK_ROWS = 8192


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type becomes a string tensor, as it is or dictionary-encoded."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds a list in each row."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def fill_scalar(value: FillValue, kind: pa.DataType) -> pa.Scalar:
    """Returns a `fill_null` value as a scalar of the column's type.

    Raises:
        ValueError: the value does not fit the type (`pyarrow.ArrowInvalid` is one).
    """
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_boolean(kind):
        fits = isinstance(value, bool)
    elif is_text(kind) or pt.is_date(kind) or pt.is_timestamp(kind):
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits or is_list(kind):
        raise ValueError(f"{value!r} is no value of type {kind}")
    if pt.is_decimal(kind):
        return pa.scalar(Decimal(str(value)), kind)
    return pa.scalar(value).cast(kind)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that are read together: a row group of a file.

    Attributes:
        origin: What the rows come from, for messages: the file's path.
        first_row: Returns the number of the first row in the origin; asked only where a row is refused.
        columns: The columns that features use, whole structs where a feature uses a field of one.
        rows: How many of its rows belong to the stream.
        kept: int64 [rows], the rows of the group that belong to the stream, or None for all.
        fill_null: Column -> value in place of null.
    """

    origin: str
    first_row: Callable[[], int]
    columns: Mapping[str, pa.ChunkedArray]
    rows: int
    kept: Array | None = None
    fill_null: Mapping[str, FillValue] = field(default_factory=dict)

    def refused(self, column: str, row: int, reason: str) -> BadValueError:
        """Returns the error for one row of the group, counted from 0 in its origin."""
        return BadValueError(f"{self.origin}: column {column!r}, row {self.first_row() + row}: {reason}")

    def refused_kept(self, column: str, row: int, reason: str) -> BadValueError:
        """Returns the error for one of the kept rows."""
        return self.refused(column, row if self.kept is None else int(self.kept[row]), reason)

    def column(self, name: str) -> pa.Array:
        """Returns a column in one piece, [group rows]; a dotted name is a field of a struct.

        Raises:
            KeyError: there is none of the name.
        """
        column = column_of(self.columns, name)
        if column is None:
            raise KeyError(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    @property
    def nbytes(self) -> int:
        """Bytes of the columns in Arrow's form."""
        return sum(column.nbytes for column in self.columns.values())

    def keep(self, values: Array) -> Array:
        """Returns the kept rows of an array [group rows, ...]."""
        return values if self.kept is None else np.take(values, self.kept, axis=0)


def assemble(features: Sequence[Feature], groups: Iterable[RowGroup], tensors: Mapping[str, Array]) -> Columns:
    """Returns the rows of the row groups, one group after the other.

    Args:
        tensors: Arrays of the right size for the features that are not text, which are filled and returned.

    Raises:
        BadValueError: a value is refused; the message names file, column and row.
    """
    texts: dict[str, list[Strings]] = {feature.key: [] for feature in features if feature.is_text}
    start = 0
    for group in groups:
        stop = start + group.rows
        values: dict[str, Array] = {}
        for feature in features:
            if feature.is_text:
                texts[feature.key].append(_text(feature.columns[0], group))
                continue
            length = math.prod(feature.shape) if len(feature.columns) == 1 else 1
            for name in feature.columns:
                if name not in values:
                    values[name] = group.keep(_values(name, group, length))
            _write(feature, values, group, tensors[feature.key][start:stop])
        start = stop
    return {**tensors, **{key: Strings.concat(parts) for key, parts in texts.items()}}


def _text(name: str, group: RowGroup) -> Strings:
    array = _without_nulls(name, group)
    encoded = array if pt.is_dictionary(array.type) else array.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int32, copy=False)
    return Strings(group.keep(codes), object_array(encoded.dictionary))


def _values(name: str, group: RowGroup, length: int) -> Array:
    """Returns a column of numbers as it is, before it is cast to a feature's dtype.

    Args:
        length: Values that each row must have, where the column is a list.

    Returns:
        Values [group rows], or [group rows, length] of a list: dates as int32 days, timestamps as int64 microseconds,
        decimals as float64.
    """
    array = _without_nulls(name, group)
    return _numbers(_flat(array, name, group, length)).reshape(-1, length) if is_list(array.type) else _numbers(array)


def _without_nulls(name: str, group: RowGroup) -> pa.Array:
    array = group.column(name)
    if not array.null_count:
        return array
    if name in group.fill_null:
        return pc.fill_null(array, fill_scalar(group.fill_null[name], array.type))
    row = pc.index(pc.is_null(array), True).as_py()
    raise group.refused(name, row, f"null; data.fill_null.{name} names a value to put in its place")


def _flat(array: pa.Array, name: str, group: RowGroup, length: int) -> pa.Array:
    """Returns the values of all lists, one after the other."""
    if pt.is_fixed_size_list(array.type):
        lengths = np.full(len(array), array.type.list_size)
    else:
        lengths = np.diff(array.offsets.to_numpy())
    wrong = lengths != length
    if wrong.any():
        row = int(np.argmax(wrong))
        raise group.refused(name, row, f"a list of {lengths[row]} values, not {length}")
    values = array.flatten()
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py() // length
        raise group.refused(name, row, "a null within the list")
    return values


def _numbers(array: pa.Array) -> Array:
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pt.is_timestamp(kind):
        # Nanoseconds are cut off, as Spark has none.
        array = array.cast(pa.timestamp("us", kind.tz), safe=False).view(pa.int64())
    elif pt.is_date(kind):
        array = array.cast(pa.date32()).view(pa.int32())
    elif pt.is_decimal(kind):
        array = array.cast(pa.float64())
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def _write(feature: Feature, values: Mapping[str, Array], group: RowGroup, out: Array) -> None:
    """Writes the columns of a feature, [rows] or [rows, length] each, into `out`, [rows, *shape]."""
    flat = out.reshape(len(out), -1)
    parts = [_fitting(values[name], feature, name, group) for name in feature.columns]
    # A double beyond float32 becomes infinite; where that matters, the check below names it.
    with np.errstate(over="ignore"):
        if parts[0].ndim > 1 or len(parts) == 1:
            flat[:] = parts[0].reshape(flat.shape)
        else:
            _pack(parts, flat)
    if feature.kind is not Kind.INPUT:
        _check_learnable(feature, flat, group)


def _pack(columns: list[Array], out: Array) -> None:
    """Writes columns [rows] side by side into `out`, [rows, n_columns]."""
    for start in range(0, len(out), _PACK_ROWS):
        stop = start + _PACK_ROWS
        for i, column in enumerate(columns):
            out[start:stop, i] = column[start:stop]


def _fitting(values: Array, feature: Feature, name: str, group: RowGroup) -> Array:
    """Returns the values, cast where a cast could lose more than digits: to whole numbers and booleans."""
    dtype = feature.numpy_dtype
    if dtype.kind == "f" or np.can_cast(values.dtype, dtype):
        return values
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
        wrong = cast != values
    if wrong.any():
        row = int(np.argmax(wrong.reshape(len(values), -1).any(axis=1)))
        bad = values[row][wrong[row]].flat[0]
        raise group.refused_kept(name, row, f"{bad} does not fit dtype {feature.dtype} of {feature.key}")
    return cast


def _check_learnable(feature: Feature, flat: Array, group: RowGroup) -> None:
    wrong = ~np.isfinite(flat)
    if feature.kind is Kind.WEIGHT:
        wrong |= flat < 0
    if not wrong.any():
        return
    row = int(np.argmax(wrong.any(axis=1)))
    position = int(np.argmax(wrong[row]))
    # A list column has many positions, a packed vector one for each column.
    name = feature.columns[position if len(feature.columns) > 1 else 0]
    what = "weight" if feature.kind is Kind.WEIGHT else "target"
    raise group.refused_kept(name, row, f"{flat[row, position]} is no value of a {what}")
