"""Converts Arrow columns of a row group into tensors, with all checks of values, without touching a row in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.errors import BadValueError
from sparktf.feature import Feature, Kind
from sparktf.feed.arrays.arrow_types import fill_scalar, in_micros, is_binary, is_list, is_text, zero_scalar
from sparktf.feed.arrays.aside import Aside, Judge, Reason
from sparktf.feed.arrays.columns import (
    Array,
    Column,
    Columns,
    Ragged,
    Strings,
    blank_column,
    concat_columns,
    object_array,
    row_splits,
)
from sparktf.feed.arrays.lists import Lists, all_values, byte_lists, take_apart
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.arrays.values import (
    far_reason,
    first_wrong,
    fitting,
    numbers,
    plain_bytes,
    too_far,
    write_side_by_side,
)
from sparktf.feed.arrays.vectors import as_lists, is_vector
from sparktf.told import line_of_error

_Singles = dict[tuple[str, bool, str], Array]
"""`_Column.single` -> values [rows]."""


def assemble(
    features: Sequence[Feature],
    groups: Iterable[RowGroup],
    tensors: Mapping[str, Array],
    aside: Aside | None = None,
) -> Columns:
    """Returns the rows of the row groups in sequence.

    Args:
        tensors: Arrays of the right size for features that are arrays, which are filled and returned.
        aside: Notes the rows that fail a check, whose values are then arbitrary.

    Raises:
        BadValueError: a value is refused, and none is set aside; the message names file, column and row.
    """
    others: dict[str, list[Column]] = {feature.key: [] for feature in features if not feature.is_array}
    start = 0
    for group in groups:
        stop = start + group.rows
        if group.unreadable and aside is not None:
            aside.unreadable(group.origin, group.number(0), start, group.rows, group.unreadable)
            for feature in features:
                if not feature.is_array:
                    others[feature.key].append(blank_column(feature, group.rows))
        else:
            out = {key: array[start:stop] for key, array in tensors.items()}
            judge = group.judge(aside, start)
            for row, name, reason in group.refused:
                judge(name, np.array([row]), partial(_said, reason))
            for key, column in _fill_tensors(features, group, out, judge).items():
                others[key].append(column)
        start = stop
    return {**tensors, **{key: concat_columns(parts) for key, parts in others.items()}}


def _said(reason: str, _: int) -> str:
    return reason


def _fill_tensors(features: Sequence[Feature], group: RowGroup, out: Mapping[str, Array], judge: Judge) -> Columns:
    """Writes the rows of a group into arrays [rows, *shape]; returns the columns that are text or ragged."""
    singles: _Singles = {}
    others: Columns = {}
    for feature in features:
        with _told_as_data(group, feature):
            columns = _columns(feature, group, judge)
            if feature.ragged:
                others[feature.key] = _ragged(columns[0])
            elif feature.is_text:
                others[feature.key] = _text(columns[0])
            elif feature.is_mask:
                _write_mask(columns, out[feature.key])
            else:
                _write(columns, _values(columns, singles), out[feature.key])
    return others


@contextmanager
def _told_as_data(group: RowGroup, feature: Feature) -> Iterator[None]:
    """Turns Arrow's errors over values into ours, so that they are not taken for errors of the model's code.

    Raises:
        BadValueError: Arrow cannot make the tensor.
    """
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        what = "columns" if len(feature.columns) > 1 else "column"
        names = ", ".join(map(repr, feature.columns))
        raise BadValueError(
            f"{group.origin}: {what} {names}: the tensor {feature.key} cannot be made: {line_of_error(error)}"
        ) from error


class _Column(NamedTuple):
    """A column, in one piece [group rows], for one feature."""

    feature: Feature
    name: str
    group: RowGroup
    array: pa.Array
    judge: Judge

    @property
    def single(self) -> tuple[str, bool, str]:
        """A key that is equal for features with the same values of the column: only decimals depend on the dtype."""
        dtype = self.feature.dtype if pt.is_decimal(self.array.type) else ""
        return self.name, self.feature.masked, dtype

    def refuse(self, rows: Array, reason: Reason) -> None:
        """Refuses rows of the group."""
        self.judge(self.name, rows, reason)

    def refuse_kept(self, rows: Array, reason: Reason) -> None:
        """Refuses some of the kept rows."""
        self.judge(self.name, self.group.rows_of(rows), reason)

    def fill(self, kind: pa.DataType) -> pa.Scalar | None:
        """Returns the value that replaces nulls; None if nulls are refused.

        Raises:
            BadValueError: it does not fit the file's type, which differs from the first file's.
        """
        if self.name in self.group.fill_null:
            try:
                return fill_scalar(self.group.fill_null[self.name], kind)
            except ValueError as error:
                where = f"{self.group.origin}: column {self.name!r}: data.fill_null.{self.name}"
                raise BadValueError(f"{where}: {error}") from error
        return zero_scalar(kind) if self.feature.masked else None

    def filled(self, values: pa.Array, what: str = "null", rows_of: Callable[[Array], Array] | None = None) -> pa.Array:
        """Returns values with all nulls replaced.

        Args:
            what: Name of a null in a refusal.
            rows_of: Positions in the values -> rows; None if each row has one value.
        """
        if pt.is_dictionary(values.type) and not is_text(values.type):
            values = values.dictionary_decode()
        far = too_far(values)
        if far is not None:
            at = np.flatnonzero(far)
            before = values
            self.refuse(at if rows_of is None else rows_of(at), lambda i: far_reason(before, int(at[i])))
            values = pc.if_else(pa.array(far), pa.scalar(0, pa.int64()).cast(values.type), values)
        if not values.null_count:
            return values
        fill = self.fill(values.type)
        if fill is None:
            self._refuse_nulls(values, what, rows_of)
            fill = zero_scalar(values.type)
        # Widened, except dictionaries: the fill value may not fit the width in the file.
        wide = values if pt.is_dictionary(values.type) else in_micros(values).cast(fill.type, safe=False)
        return pc.fill_null(wide, fill)

    def _refuse_nulls(self, values: pa.Array, what: str, rows_of: Callable[[Array], Array] | None = None) -> None:
        nulls = np.flatnonzero(~_is_valid(values))
        remedy = f"set data.fill_null.{self.name} to the value to use instead"
        if self.feature.kind is Kind.TARGET:
            remedy = (
                f"leave such rows out by data.where: {self.name} IS NOT NULL (read through Spark) or data.max_bad_rows"
            )
        self.refuse(nulls if rows_of is None else rows_of(nulls), lambda _: f"{what}; {remedy}")

    def lists(self) -> Lists:
        """Returns the column's lists, without nulls."""
        array = self.array
        if array.null_count and self.fill(array.type.value_type) is None:
            self._refuse_nulls(array, "null")
        lists = all_values(array) if self.feature.ragged else take_apart(array, self.feature, self.refuse)
        return lists._replace(values=self.filled(lists.values, "a null within the list", lists.rows_of))

    def blank(self) -> pa.Array:
        """Returns the value [1] for places that no list fills: the padding, or the fill value of null lists."""
        if self.feature.pad is not None:
            pad = [self.feature.pad]
            return pa.array(pad if self.feature.is_text else np.array(pad, self.feature.numpy_dtype))
        kind = self.array.type.value_type
        fill = self.fill(kind)
        return pa.array([zero_scalar(kind) if fill is None else fill])

    def refuse_blank(self, _: Array, reason: Reason) -> None:
        """Refuses the fill value, for the rows of null lists."""
        self.refuse(np.flatnonzero(~_is_valid(self.array)), lambda _: reason(0))


def _plain(feature: Feature, name: str, array: pa.Array, judge: Judge) -> pa.Array:
    return as_lists(array, feature, partial(judge, name)) if is_vector(array.type) else array


def _columns(feature: Feature, group: RowGroup, judge: Judge) -> list[_Column]:
    arrays = [_plain(feature, name, group.column(name), judge) for name in feature.columns]
    if feature.is_text:
        arrays = [plain_bytes(array) for array in arrays]
    elif feature.shape or feature.ragged:
        arrays = [byte_lists(array) if is_binary(array.type) else array for array in arrays]
    return [_Column(feature, name, group, array, judge) for name, array in zip(feature.columns, arrays, strict=True)]


def _values(columns: Sequence[_Column], singles: _Singles) -> list[Array]:
    """Returns the values of a feature's columns before the cast to its dtype; padded lists after it.

    Args:
        singles: Cache of columns that earlier features have converted.

    Returns:
        Values [rows], or [rows, places] for a list; see `sparktf.feed.arrays.values.numbers`.
    """
    feature = columns[0].feature
    if is_list(columns[0].array.type):
        return [_list_values(columns[0])]
    keys = [column.single for column in columns]
    for key, column in zip(keys, columns, strict=True):
        if key not in singles:
            singles[key] = column.group.keep(numbers(column.filled(column.array), feature.numpy_dtype))
    return [singles[key] for key in keys]


def _list_values(column: _Column) -> Array:
    """Returns values [rows, places] of a list column."""
    feature, lists = column.feature, column.lists()
    values = numbers(lists.values, feature.numpy_dtype)
    if lists.fill_all:
        return column.group.keep(values.reshape(-1, lists.places))
    out = np.empty((len(lists.lengths), lists.places), feature.numpy_dtype)
    # A double beyond float32 becomes infinite, which later checks find if it matters.
    with np.errstate(over="ignore"):
        out[:] = fitting(numbers(column.blank(), feature.numpy_dtype), feature, column.refuse_blank)
        out[lists.taken] = fitting(values, feature, lambda at, reason: column.refuse(lists.rows_of(at), reason))
    return column.group.keep(out)


def _text(column: _Column) -> Strings:
    group = column.group
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
    return Strings(group.keep(codes.reshape(-1, *column.feature.shape)), object_array(values))


def _ragged(column: _Column) -> Ragged:
    """Returns lists of any length; a null that is accepted becomes empty."""
    lists = column.lists()
    splits = row_splits(lists.lengths)
    if column.feature.is_text:
        encoded = _encoded(lists.values)
        found = Ragged(Strings(_codes(encoded), object_array(encoded.dictionary)), splits)
    else:
        with np.errstate(over="ignore"):
            refuse = partial(_refuse_values, column, lists)
            dtype = column.feature.numpy_dtype
            values = fitting(numbers(lists.values, dtype), column.feature, refuse)
            found = Ragged(values.astype(dtype, copy=False), splits)
    kept = column.group.kept
    return found if kept is None else found.take(kept)


def _refuse_values(column: _Column, lists: Lists, at: Array, reason: Reason) -> None:
    """Refuses the rows of some values within lists."""
    column.refuse(lists.rows_of(at), reason)


def _encoded(array: pa.Array) -> pa.DictionaryArray:
    return array if pt.is_dictionary(array.type) else array.dictionary_encode()


def _codes(encoded: pa.DictionaryArray) -> Array:
    codes: Array = encoded.indices.to_numpy().astype(np.int32, copy=False)
    return codes


def _write_mask(columns: Sequence[_Column], out: Array) -> None:
    """Writes to `out`, bool [rows, *shape], which values of a feature's columns are not null."""
    flat = out.reshape(len(out), -1)
    for i, column in enumerate(columns):
        if not is_list(column.array.type):
            flat[:, i] = column.group.keep(_is_valid(column.array))
            continue
        lists = take_apart(column.array, column.feature, column.refuse)
        taken = lists.taken
        there = np.zeros_like(taken)
        there[taken] = _is_valid(lists.values)
        flat[:] = column.group.keep(there)


def _is_valid(array: pa.Array) -> Array:
    valid: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _write(columns: Sequence[_Column], values: Sequence[Array], out: Array) -> None:
    """Writes the columns of a feature, [rows] or [rows, places] each, into `out`, [rows, *shape]."""
    flat = out.reshape(len(out), -1)
    feature = columns[0].feature
    parts = [fitting(part, feature, column.refuse_kept) for column, part in zip(columns, values, strict=True)]
    # A double beyond float32 becomes infinite, which the check below finds if it matters.
    with np.errstate(over="ignore"):
        if parts[0].ndim > 1 or len(parts) == 1:
            flat[:] = parts[0].reshape(flat.shape)
        else:
            write_side_by_side(parts, flat)
    if feature.kind is not Kind.INPUT:
        for i, column in enumerate(columns):
            # A list column has many positions, a packed vector one for each column.
            _check_learnable(column, flat if len(columns) == 1 else flat[:, i : i + 1])


def _check_learnable(column: _Column, flat: Array) -> None:
    """Checks the values [rows, n] of a target or weight."""
    wrong = ~np.isfinite(flat)
    if column.feature.kind is Kind.WEIGHT:
        wrong |= flat < 0
    if not wrong.any():
        return
    rows = np.flatnonzero(wrong.any(axis=1))
    what = "weight" if column.feature.kind is Kind.WEIGHT else "target"
    column.refuse_kept(rows, lambda i: f"{first_wrong(flat, wrong, rows[i])} cannot be a {what}")
