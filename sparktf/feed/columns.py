"""Rows of several tensors as NumPy arrays, sliced, taken and concatenated without touching a row in Python."""

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
    """Text, dictionary-encoded: row i is `values[codes[i]]`.

    Attributes:
        codes: int32 [rows, *shape].
        values: object [n_values], distinct `bytes` (UTF-8 for text). There may be values that no row has.
    """

    codes: npt.NDArray[np.int32]
    values: npt.NDArray[np.object_]

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
        compact = [part._compact() for part in parts]
        merged = pa.array(np.concatenate([part.values for part in compact]), pa.binary()).dictionary_encode()
        new_codes = merged.indices.to_numpy()
        firsts = np.cumsum([0, *(len(part.values) for part in compact)])
        codes = [new_codes[first + part.codes] for first, part in zip(firsts, compact, strict=False)]
        return cls(np.concatenate(codes).astype(np.int32, copy=False), object_array(merged.dictionary))

    def _compact(self) -> Strings:
        """A few rows of a block with many values keep only their own: a batch must not carry a block's dictionary."""
        if self.codes.size >= len(self.values):
            return self
        used, codes = np.unique(self.codes, return_inverse=True)
        return Strings(codes.astype(np.int32).reshape(self.codes.shape), self.values[used])


Columns = dict[str, Array | Strings]
"""`Feature.key` -> the tensor's rows: an array [rows, *shape], or `Strings` for text."""


def object_array(values: pa.Array) -> npt.NDArray[np.object_]:
    """Returns the text or binary values of an Arrow array as `bytes` objects: object [n]."""
    array: npt.NDArray[np.object_] = values.cast(pa.binary()).to_numpy(zero_copy_only=False).astype(object, copy=False)
    return array


def empty_columns(features: Iterable[Feature]) -> Columns:
    """Returns no rows of every feature, with the right dtypes and shapes."""
    return {
        feature.key: Strings.empty(feature.shape)
        if feature.is_text
        else np.empty((0, *feature.shape), feature.numpy_dtype)
        for feature in features
    }


def row_count(columns: Mapping[str, Array | Strings]) -> int:
    """Returns the number of rows; 0 where there is no column."""
    return len(next(iter(columns.values()), ()))


def slice_rows(columns: Mapping[str, Array | Strings], start: int, stop: int) -> Columns:
    """Returns rows `[start, stop)`, sharing memory."""
    return {
        key: column.slice(start, stop) if isinstance(column, Strings) else column[start:stop]
        for key, column in columns.items()
    }


def take_rows(columns: Mapping[str, Array | Strings], rows: Array, out: Mapping[str, Array]) -> Columns:
    """Returns the given rows, in that order.

    Args:
        rows: int64 [n].
        out: Arrays [n, *shape] for the columns that are not text, which are filled and returned.
    """
    return {key: _take(column, rows, out.get(key)) for key, column in columns.items()}


def _take(column: Array | Strings, rows: Array, out: Array | None) -> Array | Strings:
    if isinstance(column, Strings):
        return column.take(rows)
    # Three to four times as fast as indexing where a row has several values; "clip" writes to `out` without a buffer.
    taken: Array = np.take(column, rows, axis=0, out=out, mode="clip")
    return taken


def concat_rows(parts: Sequence[Columns], out: Mapping[str, Array]) -> Columns:
    """Returns the rows of all parts (at least one), in order.

    Args:
        out: As for `take_rows`, of as many rows as all parts have.
    """
    return {key: _concat([part[key] for part in parts], out.get(key)) for key in parts[0]}


def _concat(parts: Sequence[Array | Strings], out: Array | None) -> Array | Strings:
    texts = [part for part in parts if isinstance(part, Strings)]
    if texts:
        return Strings.concat(texts)
    return np.concatenate([part for part in parts if not isinstance(part, Strings)], out=out)
