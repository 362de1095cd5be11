"""Slices of rows by the values of columns: codes of each row, taken from the feed's columns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.errors import ModelContractError
from sparktf.feature import Feature, FeedSpec
from sparktf.feed.arrays.columns import Columns, Strings

Codes = npt.NDArray[np.int64]

_MOST_KNOWN = 10_000
"""The most values of a column that are distinguished on a node; later ones belong to no slice."""


class SliceColumn(NamedTuple):
    """A column's place among the tensors: its index in a packed vector; None if it is a tensor by itself."""

    name: str
    feature: Feature
    place: int | None


def slice_columns(spec: FeedSpec, names: Sequence[str]) -> tuple[SliceColumn, ...]:
    """Finds the columns of `gate.slices`.

    Raises:
        ModelContractError: no tensor has one of them.
    """
    there = {column.name: column for column in _columns_of(spec)}
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, 1)
            raise ModelContractError(
                f"gate.slices: {name} is no column of single values that an input, target or weight is made of"
                + (f"; did you mean {near[0]}?" if near else "")
            )
    return tuple(there[name] for name in names)


def _columns_of(spec: FeedSpec) -> Iterator[SliceColumn]:
    for feature in spec.features:
        if feature.ragged or feature.is_mask:
            continue
        if feature.shape == () and len(feature.columns) == 1:
            yield SliceColumn(feature.columns[0], feature, None)
        elif feature.is_array and feature.shape == (len(feature.columns),):
            yield from (SliceColumn(name, feature, i) for i, name in enumerate(feature.columns))


class SliceCodes:
    """Numbers the values of one column as they come, and chooses the slices among them.

    Attributes:
        labels: Label of each value, by number: "country=de".
    """

    def __init__(self, column: SliceColumn, most: int) -> None:
        """Knows no value yet; at most `most` values become slices."""
        self.labels: list[str] = []
        self._most = most
        self._slices: set[int] = set()
        self._left_out: set[int] = set()
        self._column = column
        self._codes: dict[Any, int] = {}
        self._dictionary: Any = None
        self._of_dictionary = np.empty(0, np.int64)

    def of(self, columns: Columns) -> Codes:
        """Returns the numbers of the rows' values; -1 for values beyond `_MOST_KNOWN`."""
        values = columns[self._column.feature.key]
        if isinstance(values, Strings):
            if values.values is not self._dictionary:  # batches of one block share it
                self._dictionary = values.values
                self._of_dictionary = self._known(values.values.tolist())
            return self._of_dictionary[values.codes]
        array: Any = values if self._column.place is None else np.asarray(values)[:, self._column.place]
        distinct, codes = np.unique(array, return_inverse=True)
        return self._known(distinct.tolist())[codes]

    def takes(self, code: int) -> bool:
        """Returns whether a value is a slice: the first values asked for are.

        A value that was refused once stays refused, so that all rows of a slice count, or none.
        """
        if code not in self._slices and code not in self._left_out:
            (self._slices if len(self._slices) < self._most else self._left_out).add(code)
        return code in self._slices

    def lacks(self, label: str) -> bool:
        """Returns whether this node may have left out rows of a slice, which only other nodes may have."""
        if not label.startswith(f"{self._column.name}="):
            return False
        if label in self.labels:
            return self.labels.index(label) in self._left_out
        return len(self.labels) >= _MOST_KNOWN

    def _known(self, values: Iterable[Any]) -> Codes:
        return np.array([self._code(value) for value in values], np.int64)

    def _code(self, value: Any) -> int:
        code = self._codes.get(value)
        if code is None:
            if len(self.labels) >= _MOST_KNOWN:
                return -1
            code = self._codes[value] = len(self.labels)
            self.labels.append(f"{self._column.name}={_in_words(value)}")
        return code


def _in_words(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
