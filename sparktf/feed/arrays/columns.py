"""Rows of several tensors as NumPy arrays: slices, takes and concatenates them without touching a row in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparktf.feature import Feature

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Strings:
    """Text, dictionary-encoded: row i is `values[codes[i]]`."""

    codes: npt.NDArray[np.int32]  # int32 [rows, *shape]
    values: npt.NDArray[np.object_]  # object [n_values], distinct `bytes` (UTF-8 for text), of which some may be unused

    def __len__(self) -> int:
        return len(self.codes)

    def slice(self, start: int, stop: int) -> Strings:
        """Returns rows `[start, stop)`, sharing memory."""
        return Strings(self.codes[start:stop], self.values)

    def take(self, rows: Array) -> Strings:
        """Returns the given rows, in that order."""
        return Strings(np.take(self.codes, rows, axis=0), self.values)

    def to_numpy(self) -> npt.NDArray[np.object_]:
        """Returns object [rows, *shape], one `bytes` per text."""
        return self.values[self.codes]

    @classmethod
    def empty(cls, shape: tuple[int, ...] = ()) -> Strings:
        """Returns no rows of a shape."""
        return cls(np.empty((0, *shape), np.int32), np.empty(0, object))

    @classmethod
    def blank(cls, rows: int, shape: tuple[int, ...] = ()) -> Strings:
        """Returns rows of empty texts."""
        return cls(np.zeros((rows, *shape), np.int32), np.array([b""], object))

    @classmethod
    def concat(cls, parts: Sequence[Strings]) -> Strings:
        """Returns the rows of all parts, in order, with the values merged."""
        if all(part.values is parts[0].values for part in parts):
            return cls(np.concatenate([part.codes for part in parts]), parts[0].values)
        compact = [part.compact() for part in parts]
        merged = pa.array(np.concatenate([part.values for part in compact]), pa.binary()).dictionary_encode()
        new_codes = merged.indices.to_numpy()
        firsts = np.cumsum([0, *(len(part.values) for part in compact)])
        codes = [new_codes[first + part.codes] for first, part in zip(firsts, compact, strict=False)]
        return cls(np.concatenate(codes).astype(np.int32, copy=False), object_array(merged.dictionary))

    def compact(self) -> Strings:
        """Drops unused values if the dictionary has more values than there are texts."""
        if self.codes.size >= len(self.values):
            return self
        used, codes = np.unique(self.codes, return_inverse=True)
        return Strings(codes.astype(np.int32).reshape(self.codes.shape), self.values[used])


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of any length: row i is `values[splits[i] : splits[i + 1]]`."""

    # [n], of all rows in sequence, perhaps with others before the first row and after the last one
    values: Array | Strings
    splits: npt.NDArray[np.int64]  # int64 [rows + 1]

    def __len__(self) -> int:
        return len(self.splits) - 1

    def slice(self, start: int, stop: int) -> Ragged:
        """Returns rows `[start, stop)`, sharing memory."""
        return Ragged(self.values, self.splits[start : max(stop, start) + 1])

    def take(self, rows: Array) -> Ragged:
        """Returns the given rows, in that order."""
        starts, lengths = self.splits[rows], np.diff(self.splits)[rows]
        splits = row_splits(lengths)
        return Ragged(_taken(self.values, np.arange(splits[-1]) + np.repeat(starts - splits[:-1], lengths)), splits)

    def compact(self) -> Ragged:
        """Drops values before the first row and after the last one."""
        first, last = int(self.splits[0]), int(self.splits[-1])
        values = self.values.slice(first, last) if isinstance(self.values, Strings) else self.values[first:last]
        return Ragged(values, self.splits - first)

    @classmethod
    def blank(cls, rows: int, feature: Feature) -> Ragged:
        """Returns rows of empty lists."""
        values = Strings.empty() if feature.is_text else np.empty(0, feature.numpy_dtype)
        return cls(values, np.zeros(rows + 1, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """Returns the rows of all parts, in order."""
        compact = [part.compact() for part in parts]
        lengths = np.concatenate([np.diff(part.splits) for part in compact])
        return cls(_concat_values([part.values for part in compact]), row_splits(lengths))


def row_splits(lengths: Array) -> npt.NDArray[np.int64]:
    """Returns the row splits of lists of some lengths: int64 [rows + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _concat_values(parts: Sequence[Array | Strings]) -> Array | Strings:
    texts = [part for part in parts if isinstance(part, Strings)]
    return Strings.concat(texts) if texts else np.concatenate([part for part in parts if isinstance(part, np.ndarray)])


def _taken(values: Array | Strings, at: Array) -> Array | Strings:
    if isinstance(values, Strings):
        return values.take(at)
    taken: Array = np.take(values, at)
    return taken


Column = Array | Strings | Ragged
"""The rows of one tensor: an array [rows, *shape], or `Strings` for text, or `Ragged` for lists of any length."""

Columns = dict[str, Column]
"""`Feature.key` -> the tensor's rows."""


def object_array(values: pa.Array) -> npt.NDArray[np.object_]:
    """Returns the text or binary values of an Arrow array as `bytes` objects: object [n]."""
    array: npt.NDArray[np.object_] = values.cast(pa.binary()).to_numpy(zero_copy_only=False).astype(object, copy=False)
    return array


def empty_columns(features: Iterable[Feature]) -> Columns:
    """Returns no rows of every feature, with the right dtypes and shapes."""
    return {feature.key: blank_column(feature, 0) for feature in features}


def blank_column(feature: Feature, rows: int) -> Column:
    """Returns rows of empty lists, empty strings, or arbitrary numbers."""
    if feature.ragged:
        return Ragged.blank(rows, feature)
    if feature.is_text:
        return Strings.blank(rows, feature.shape) if rows else Strings.empty(feature.shape)
    return np.empty((rows, *feature.shape), feature.numpy_dtype)


def row_count(columns: Mapping[str, Column]) -> int:
    """Returns the number of rows; 0 without columns."""
    return len(next(iter(columns.values()), ()))


def slice_rows(columns: Mapping[str, Column], start: int, stop: int) -> Columns:
    """Returns rows `[start, stop)`, sharing memory."""
    return {
        key: column[start:stop] if isinstance(column, np.ndarray) else column.slice(start, stop)
        for key, column in columns.items()
    }


def take_rows(columns: Mapping[str, Column], rows: Array, out: Mapping[str, Array]) -> Columns:
    """Returns the given rows, in that order.

    Args:
        rows: int64 [n].
        out: Arrays [n, *shape] for the columns that are arrays, which are filled and returned.
    """
    return {key: _take(column, rows, out.get(key)) for key, column in columns.items()}


def _take(column: Column, rows: Array, out: Array | None) -> Column:
    if not isinstance(column, np.ndarray):
        return column.take(rows)
    # Three to four times as fast as indexing if a row has several values; "clip" writes to `out` without a buffer.
    taken: Array = np.take(column, rows, axis=0, out=out, mode="clip")
    return taken


def concat_rows(parts: Sequence[Columns], out: Mapping[str, Array]) -> Columns:
    """Returns the rows of all parts (at least one), in order; `out` as for `take_rows`, for the rows of all parts."""
    return {key: _concat([part[key] for part in parts], out.get(key)) for key in parts[0]}


def _concat(parts: Sequence[Column], out: Array | None) -> Column:
    texts = [part for part in parts if isinstance(part, Strings)]
    if texts:
        return Strings.concat(texts)
    lists = [part for part in parts if isinstance(part, Ragged)]
    if lists:
        return Ragged.concat(lists)
    return np.concatenate([part for part in parts if isinstance(part, np.ndarray)], out=out)


def concat_columns(parts: Sequence[Column]) -> Column:
    """Returns the rows of several parts (at least one) of one tensor."""
    return _concat(parts, None)
