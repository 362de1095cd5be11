"""Arrow columns of one row group -> tensors, with every check of a value. No row is touched in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.config import FillValue
from sparktf.errors import BadValueError
from sparktf.feature import Feature, Kind
from sparktf.feed.columns import Array, Columns, Strings, object_array
from sparktf.feed.lists import Lists, Refuse, byte_lists, take_apart
from sparktf.feed.nested import column_of

# Rows packed at a time: the target of one such piece stays in the second-level cache while column after column goes in.
_PACK_ROWS = 8192


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type becomes a string tensor, as it is or dictionary-encoded."""
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
    """Whether a feature can be made of a column of this Arrow type: text of text, numbers of numbers or bytes."""
    holds_text = is_text(kind.value_type if is_list(kind) else kind)
    is_bytes = bool(feature.shape) and is_binary(kind)
    return feature.is_mask or is_bytes or holds_text == feature.is_text


def fill_scalar(value: FillValue, kind: pa.DataType) -> pa.Scalar:
    """Returns a `fill_null` value as a scalar of the type of a column's values, of which a list column has many.

    Raises:
        ValueError: the value does not fit the type (`pyarrow.ArrowInvalid` is one).
    """
    kind = _value_type(kind.value_type if is_list(kind) else kind)
    if pt.is_boolean(kind):
        fits = isinstance(value, bool)
    elif is_text(kind) or pt.is_date(kind) or pt.is_time(kind) or pt.is_timestamp(kind):
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits:
        raise ValueError(f"{value!r} is no value of type {kind}")
    if pt.is_decimal(kind):
        return pa.scalar(Decimal(str(value)), kind)
    return pa.scalar(value).cast(kind)


def _zero(kind: pa.DataType) -> pa.Scalar:
    """Returns what stands in place of a null that is masked: zero, 1970, midnight, false, or an empty text."""
    kind = _value_type(kind)
    if is_text(kind) or pt.is_decimal(kind):
        return fill_scalar("" if is_text(kind) else 0, kind)
    return pa.scalar(0, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


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
        singles: dict[tuple[str, bool], Array] = {}
        for feature in features:
            if feature.is_text:
                texts[feature.key].append(_text(feature, group))
            elif feature.is_mask:
                _write_mask(feature, group, tensors[feature.key][start:stop])
            else:
                _write(feature, _values(feature, group, singles), group, tensors[feature.key][start:stop])
        start = stop
    return {**tensors, **{key: Strings.concat(parts) for key, parts in texts.items()}}


class _Column(NamedTuple):
    """A column as one feature takes it.

    Attributes:
        array: The column in one piece, [group rows].
    """

    feature: Feature
    name: str
    group: RowGroup
    array: pa.Array

    def refused(self, row: int, reason: str) -> BadValueError:
        """See `RowGroup.refused`."""
        return self.group.refused(self.name, row, reason)

    def fill(self, kind: pa.DataType) -> pa.Scalar | None:
        """Returns what stands in place of a null among values of a type; None where it is refused."""
        if self.name in self.group.fill_null:
            return fill_scalar(self.group.fill_null[self.name], kind)
        return _zero(kind) if self.feature.masked else None

    def filled(self, values: pa.Array, what: str = "null", row_of: Callable[[int], int] = int) -> pa.Array:
        """Returns values with something in place of every null.

        Args:
            what: What a null is called where it is refused.
            row_of: Position in the values -> row.
        """
        if not values.null_count:
            return values
        fill = self.fill(values.type)
        if fill is None:
            row = row_of(pc.index(values.is_null(), True).as_py())
            raise self.refused(row, f"{what}; data.fill_null.{self.name} names a value to put in its place")
        return pc.fill_null(values, fill)

    def lists(self) -> Lists:
        """Returns the column's lists, without nulls."""
        array = self.array
        if array.null_count and self.fill(array.type.value_type) is None:
            self.filled(array)
        lists = take_apart(array, self.feature, self.refused)
        return lists._replace(values=self.filled(lists.values, "a null within the list", lists.row_of))

    def blank(self) -> pa.Array:
        """Returns the value [1] of places that no list has filled: the padding, or of a null list what fills nulls."""
        kind = self.array.type.value_type
        return pa.array([self.fill(kind) if self.feature.pad is None else self.feature.pad])

    def blank_refused(self, _: int, reason: str) -> BadValueError:
        """Returns the error over a value that fills nulls: the first null list brings it in."""
        return self.refused(pc.index(self.array.is_null(), True).as_py(), reason)


def _columns(feature: Feature, group: RowGroup) -> list[_Column]:
    arrays = [group.column(name) for name in feature.columns]
    if feature.shape:
        arrays = [byte_lists(array) if is_binary(array.type) else array for array in arrays]
    return [_Column(feature, name, group, array) for name, array in zip(feature.columns, arrays, strict=True)]


def _values(feature: Feature, group: RowGroup, singles: dict[tuple[str, bool], Array]) -> list[Array]:
    """Returns the columns of a feature as they are, before they are cast to its dtype, padded ones after that.

    Args:
        singles: What features before this one have made of columns, by name and whether nulls are masked.

    Returns:
        Values [rows], or [rows, places] of one list: dates as int32 days, times, timestamps and intervals as int64
        microseconds, decimals as float64.
    """
    columns = _columns(feature, group)
    if is_list(columns[0].array.type):
        return [_list_values(columns[0])]
    for column in columns:
        if (column.name, feature.masked) not in singles:
            singles[column.name, feature.masked] = group.keep(_numbers(column.filled(column.array)))
    return [singles[name, feature.masked] for name in feature.columns]


def _list_values(column: _Column) -> Array:
    """Returns values [rows, places] of a list column."""
    feature, lists = column.feature, column.lists()
    values = _numbers(lists.values)
    if lists.fill_all:
        return column.group.keep(values.reshape(-1, lists.places))
    out = np.empty((len(lists.lengths), lists.places), feature.numpy_dtype)
    # A double beyond float32 becomes infinite, which the caller's checks find where it matters.
    with np.errstate(over="ignore"):
        out[:] = _fitting(_numbers(column.blank()), feature, column.blank_refused)
        out[lists.taken] = _fitting(values, feature, lambda i, reason: column.refused(lists.row_of(i), reason))
    return column.group.keep(out)


def _text(feature: Feature, group: RowGroup) -> Strings:
    (column,) = _columns(feature, group)
    if not is_list(column.array.type):
        encoded = _encoded(column.filled(column.array))
        return Strings(group.keep(_codes(encoded)), object_array(encoded.dictionary))
    lists = column.lists()
    encoded = _encoded(lists.values)
    codes, values = _codes(encoded), encoded.dictionary
    if not lists.fill_all:
        blank = column.blank().cast(values.type)
        code = pc.index(values, blank[0]).as_py()
        if code < 0:
            code, values = len(values), pa.concat_arrays([values, blank])
        padded = np.full((len(lists.lengths), lists.places), code, np.int32)
        padded[lists.taken] = codes
        codes = padded
    return Strings(group.keep(codes.reshape(-1, *feature.shape)), object_array(values))


def _encoded(array: pa.Array) -> pa.DictionaryArray:
    return array if pt.is_dictionary(array.type) else array.dictionary_encode()


def _codes(encoded: pa.DictionaryArray) -> Array:
    codes: Array = encoded.indices.to_numpy().astype(np.int32, copy=False)
    return codes


def _write_mask(feature: Feature, group: RowGroup, out: Array) -> None:
    """Writes to `out`, bool [rows, *shape], which values of the feature's columns are there."""
    flat = out.reshape(len(out), -1)
    for i, column in enumerate(_columns(feature, group)):
        if not is_list(column.array.type):
            flat[:, i] = group.keep(_is_valid(column.array))
            continue
        lists = take_apart(column.array, feature, column.refused)
        taken = lists.taken
        there = np.zeros_like(taken)
        there[taken] = _is_valid(lists.values)
        flat[:] = group.keep(there)


def _is_valid(array: pa.Array) -> Array:
    valid: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _numbers(array: pa.Array) -> Array:
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pt.is_timestamp(kind):
        # Nanoseconds are cut off, as Spark has none.
        array = array.cast(pa.timestamp("us", kind.tz), safe=False).view(pa.int64())
    elif pt.is_time(kind) or pt.is_duration(kind):
        array = array.cast(pa.time64("us") if pt.is_time(kind) else pa.duration("us"), safe=False).view(pa.int64())
    elif pt.is_date(kind):
        array = array.cast(pa.date32()).view(pa.int32())
    elif pt.is_decimal(kind):
        array = array.cast(pa.float64())
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def _write(feature: Feature, values: Sequence[Array], group: RowGroup, out: Array) -> None:
    """Writes the columns of a feature, [rows] or [rows, places] each, into `out`, [rows, *shape]."""
    flat = out.reshape(len(out), -1)
    parts = [
        _fitting(column, feature, partial(group.refused_kept, name))
        for name, column in zip(feature.columns, values, strict=True)
    ]
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


def _fitting(values: Array, feature: Feature, refuse: Refuse) -> Array:
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
        raise refuse(row, f"{bad} does not fit dtype {feature.dtype} of {feature.key}")
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
