"""A column's values as one task sees them, in Arrow's arrays: sketched in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.feed.arrays.values import numbers
from sparktf.statistics.column_parts import ColumnKind, ColumnPart, SpreadPart, ValuesPart
from sparktf.statistics.column_statistics import COMMONEST, TEXT_LENGTH
from sparktf.statistics.sketches import (
    ColumnValues,
    CountedValues,
    Distinct,
    Floats,
    Integers,
    Moments,
    Sample,
    counted,
    hashed,
)

_ROWS = 1 << 15
"""Numbers at a time: they stay in the second-level cache for all figures."""

_ESTIMATED = 10 * COMMONEST
"""The commonest values in a part whose values are too many to count."""


class Room(NamedTuple):
    """Limits on the values of a column that each task keeps."""

    counted: int  # Distinct values that are counted exactly
    sampled: int  # Values drawn at random
    points: int  # Of these, in order, the number sent on
    hashes: int = 4096  # Hashes by which distinct values are estimated once there are too many to count


class ColumnSketch:
    """A sketch of a column's values, of any number of rows."""

    def __init__(self, kind: ColumnKind, room: Room, draw: np.random.Generator) -> None:
        self._kind = kind
        self._nulls = 0
        self._nans = 0
        self._bounds = Moments()
        self._numbers = _SpreadSketch(room, draw) if kind is ColumnKind.NUMBER else None
        sample = Sample(room.sampled, draw) if self._numbers is None else self._numbers.sample
        has_lengths = kind in (ColumnKind.BYTES, ColumnKind.LIST, ColumnKind.NUMBER_LIST)
        self._lengths = _SpreadSketch(room, draw) if has_lengths else None
        self._values = None if has_lengths else _ValuesSketch(room, sample)

    def add(self, array: pa.Array) -> None:
        """Adds the values of some rows."""
        self._nulls += array.null_count
        if pt.is_null(array.type):
            return
        if self._lengths is not None:
            self._add_lengths(self._lengths, array.drop_null())
        elif self._kind is ColumnKind.TEXT:
            self._add_text(array)
        elif self._kind is ColumnKind.TRUTH:
            self._add_truth(array)
        else:
            for start in range(0, len(array), _ROWS):
                self._add_numbers(array.slice(start, _ROWS).drop_null())

    def part(self) -> ColumnPart:
        numbers = None if self._numbers is None else self._numbers.part()
        if self._kind is ColumnKind.NUMBER_LIST:
            numbers = SpreadPart(self._bounds, np.empty(0))
        return ColumnPart(
            nulls=self._nulls,
            nans=self._nans,
            numbers=numbers,
            lengths=None if self._lengths is None else self._lengths.part(),
            values=None if self._values is None else self._values.part(),
        )

    def _add_numbers(self, array: pa.Array) -> None:
        found = numbers(array, np.dtype(np.float64))
        if found.dtype.kind == "f" and not (is_finite := np.isfinite(found)).all():
            self._nans += len(found) - int(is_finite.sum())
            found = found[is_finite]
        if not len(found):
            return
        x = found.astype(np.float64, copy=False)
        if self._numbers is not None:
            self._numbers.add(x)
        if self._values is not None:
            # Days and times count as floats, since their bounds may have fractions.
            is_whole = found.dtype.kind in "iu" and found.dtype != np.uint64 and pt.is_integer(array.type)
            self._values.add(found.astype(np.int64, copy=False) if is_whole else x)

    def _add_text(self, array: pa.Array) -> None:
        encoded = array if pt.is_dictionary(array.type) else array.dictionary_encode()
        codes = encoded.indices.drop_null().to_numpy()
        if self._values is not None and len(codes):
            self._values.add_encoded(_short(encoded.dictionary), codes)

    def _add_truth(self, array: pa.Array) -> None:
        true = pc.sum(array).as_py() or 0
        counts = np.array([len(array) - array.null_count - true, true])
        some = np.flatnonzero(counts)
        if self._values is not None and len(some):
            self._values.add_counts(some.astype(np.int64), counts[some])

    def _add_lengths(self, lengths: _SpreadSketch, array: pa.Array) -> None:
        if self._kind is ColumnKind.BYTES:
            found = pc.binary_length(array.dictionary_decode() if pt.is_dictionary(array.type) else array)
        else:
            found = pc.list_value_length(array)
        if len(found):
            lengths.add(found.to_numpy(zero_copy_only=False).astype(np.float64))
        if self._kind is ColumnKind.NUMBER_LIST:
            self._add_bounds(array)

    def _add_bounds(self, lists: pa.Array) -> None:
        flat, row = lists.flatten(), pc.list_parent_indices(lists)
        if flat.null_count:
            row, flat = row.filter(flat.is_valid()), flat.drop_null()
        found = numbers(flat, np.dtype(np.float64)).astype(np.float64, copy=False)
        is_finite = np.isfinite(found)
        if not is_finite.all():
            self._nans += len(np.unique(row.to_numpy()[~is_finite]))
            found = found[is_finite]
        self._bounds = self._bounds.and_(Moments.of(found))


class _SpreadSketch:
    """The distribution of numbers."""

    def __init__(self, room: Room, draw: np.random.Generator) -> None:
        self._room = room
        self._draw = draw
        self._moments = Moments()
        self.sample = Sample(room.sampled, draw)

    def add(self, x: Floats) -> None:
        """Adds finite numbers, at least one."""
        self._moments = self._moments.and_(Moments.of(x))
        self.sample.add(len(x), x.take)

    def part(self) -> SpreadPart:
        drawn = self.sample.values()
        if drawn is None:
            return SpreadPart(self._moments, np.empty(0))
        points, count = np.sort(drawn), self._room.points
        if len(points) > count:
            # The random start keeps the errors of many tasks from adding up.
            ranks = (np.arange(count) + self._draw.random()) / count
            points = points[(ranks * len(points)).astype(np.int64)]
        return SpreadPart(self._moments, points)


class _ValuesSketch:
    """The distinct values and their counts: exact while there are few, then by a sample."""

    def __init__(self, room: Room, sample: Sample) -> None:
        """Args: sample: A sample of the values, to which the caller may add them as numbers."""
        self._room = room
        self._rows = 0
        self._counts: CountedValues | None = CountedValues(room.counted)
        self._distinct = Distinct(room.hashes)
        self._sample = sample

    def add(self, values: ColumnValues) -> None:
        """Adds numbers, at least one, that are already in the sample."""
        self._rows += len(values)
        if self._counts is None:
            self._distinct.add_all(hashed(values))
        else:
            self._count(self._counts, *counted(values))

    def add_encoded(self, dictionary: pa.Array, codes: Integers) -> None:
        """Adds values of a dictionary, at least one."""
        self._rows += len(codes)
        self._sample.add(len(codes), lambda drawn: dictionary.take(pa.array(codes[drawn])))
        counts = np.bincount(codes)
        used = np.flatnonzero(counts)
        values = dictionary if len(used) == len(dictionary) else dictionary.take(pa.array(used))
        if self._counts is None:
            self._distinct.add_all(hashed(values))
        else:
            self._count(self._counts, values, counts[used])

    def add_counts(self, values: ColumnValues, counts: Integers) -> None:
        """Adds a few values, each with its count."""
        self._rows += int(counts.sum())
        if self._counts is not None:
            self._counts.add(values, counts)

    def part(self) -> ValuesPart:
        if self._counts is not None:
            found = self._counts.found()
            return ValuesPart(None, np.empty(0, np.int64)) if found is None else ValuesPart(*found)
        return ValuesPart(*self._estimated(), *self._distinct.hashes())

    def _count(self, known: CountedValues, values: ColumnValues, counts: Integers) -> None:
        known.add(values, counts)
        if known.are_too_many:
            found = known.found()
            if found is not None:
                self._distinct.add_all(hashed(found[0]))
            self._counts = None

    def _estimated(self) -> tuple[ColumnValues | None, Integers]:
        """Returns the commonest values by the sample; a single occurrence proves nothing."""
        drawn = self._sample.values()
        if drawn is None:
            return None, np.empty(0, np.int64)
        values, counts = counted(drawn)
        some = np.argsort(-counts, kind="stable")[:_ESTIMATED]
        some = some[counts[some] > 1]
        if not len(some):
            return None, np.empty(0, np.int64)
        scaled = np.rint(counts[some] * (self._rows / len(drawn))).astype(np.int64)
        return values.take(pa.array(some) if isinstance(values, pa.Array) else some), scaled


def no_part(kind: ColumnKind) -> ColumnPart:
    """Returns the part of a column without rows."""
    return ColumnSketch(kind, Room(1, 1, 1, 1), np.random.default_rng(0)).part()


def _short(texts: pa.Array) -> pa.Array:
    """Returns texts as large binary, cut to `TEXT_LENGTH` characters."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > TEXT_LENGTH:
        try:
            texts = pc.utf8_slice_codeunits(texts.cast(pa.large_string()), 0, TEXT_LENGTH)
        except pa.ArrowInvalid:  # bytes that are no text: Spark's and TensorFlow's strings may be any
            texts = pc.binary_slice(texts.cast(pa.large_binary()), 0, TEXT_LENGTH)
    return texts.cast(pa.large_binary())
