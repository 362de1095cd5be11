"""Mergeable sketches of bounded size: a sample, distinct counts, frequent values, and moments.

They take whole arrays: adding values one at a time would cost ten times as much as reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
ColumnValues: TypeAlias = npt.NDArray[Any] | pa.Array
"""Without nulls: numbers as int64 or float64, text as Arrow's large binary."""

_BLOCK = 8192
"""Values at a time: the intermediate ones stay in the second-level cache."""

_ALL = 2**64  # All hashes are below it


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, bounds, mean, and the sum of squares around the mean."""

    count: int = 0
    min: float = np.inf
    max: float = -np.inf
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, x: Floats) -> Moments:
        """Returns the moments of finite numbers."""
        if not len(x):
            return cls()
        mean = float(x.mean())
        squares = x - mean
        squares *= squares  # a product of vectors would be a matter of BLAS's threads, which spin
        return cls(len(x), float(x.min()), float(x.max()), mean, float(squares.sum()))

    def and_(self, other: Moments) -> Moments:
        """Returns the moments of both (Chan, Golub, LeVeque 1979)."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        apart = other.mean - self.mean
        return Moments(
            count,
            min(self.min, other.min),
            max(self.max, other.max),
            self.mean + apart * other.count / count,
            self.squares + other.squares + apart * apart * self.count * other.count / count,
        )


class Sample:
    """Values drawn at random: one of every `step`, where `step` doubles when there are too many.

    The position within each `step` is random, so that a period in the data is neither always hit nor always missed.
    """

    def __init__(self, limit: int, draw: np.random.Generator) -> None:
        """Args: limit: The most values kept; once reached, at least half as many stay."""
        self._limit = limit
        self._draw = draw
        self._step = 1
        self._parts: list[ColumnValues] = []
        self._size = 0

    def add(self, count: int, take: Callable[[Integers], ColumnValues]) -> None:
        """Draws from `count` values; `take` returns those at given places."""
        part = take(self._drawn(count, self._step))
        self._parts.append(part)
        self._size += len(part)
        while self._size > self._limit:
            whole = concatenated(self._parts)
            self._parts = [whole.take(self._drawn(len(whole), 2))]
            self._size = len(self._parts[0])
            self._step *= 2

    def values(self) -> ColumnValues | None:
        """Returns the drawn values; None for none."""
        if len(self._parts) > 1:
            self._parts = [concatenated(self._parts)]
        return self._parts[0] if self._size else None

    def _drawn(self, count: int, step: int) -> Integers:
        if step == 1:
            return np.arange(count)
        firsts = np.arange(0, count, step)
        drawn = firsts + self._draw.integers(0, step, len(firsts))
        return drawn[drawn < count]


class Distinct:
    """Estimates the number of distinct values by their least hashes (Bar-Yossef et al. 2002): within some 2 %."""

    def __init__(self, size: int) -> None:
        """Args: size: The number of hashes kept."""
        self._size = size
        self._below = _ALL
        self._kept: Hashes = np.empty(0, np.uint64)
        self._new: list[Hashes] = []
        self._n_new = 0

    def add(self, hashes: Hashes) -> None:
        """Adds hashes; duplicates count once."""
        some = hashes if self._below == _ALL else hashes[hashes < np.uint64(self._below)]
        self._new.append(some)
        self._n_new += len(some)
        if self._n_new > 2 * self._size:
            self._compact()

    def add_all(self, hashes: Iterator[Hashes]) -> None:
        """Adds hashes block by block."""
        for some in hashes:
            self.add(some)

    def hashes(self) -> tuple[int, Hashes]:
        """Returns the hashes kept and the bound that all of them are below."""
        self._compact()
        return self._below, self._kept

    def cut(self, below: int) -> None:
        """Drops hashes above the bound of another sketch, so that both can be merged."""
        self._compact()
        if below < self._below:
            self._below = below
            self._kept = self._kept[self._kept < np.uint64(below)]

    def estimate(self) -> int:
        """Returns the estimated number of distinct values."""
        self._compact()
        return len(self._kept) if self._below == _ALL else round(len(self._kept) / (self._below / _ALL))

    def _compact(self) -> None:
        if not self._n_new:
            return
        kept = np.sort(np.concatenate([self._kept, *self._new]))
        kept = kept[_firsts(kept)]
        if len(kept) > self._size:
            self._below = int(kept[self._size])
            kept = kept[: self._size]
        self._kept, self._new, self._n_new = kept, [], 0


class CountedValues:
    """Exact counts of values."""

    def __init__(self, limit: int) -> None:
        """Args: limit: The most distinct values; see `are_too_many`."""
        self._limit = limit
        self._values: list[ColumnValues] = []
        self._counts: list[Integers] = []
        self._size = 0

    def add(self, values: ColumnValues, counts: Integers) -> None:
        """Adds values, each with a count."""
        self._values.append(values)
        self._counts.append(counts)
        self._size += len(values)
        if self._size > 2 * self._limit:
            self._compact()

    @property
    def are_too_many(self) -> bool:
        """Whether the limit is exceeded. Compacted now and then, so up to twice the limit may pass."""
        return self._size > 2 * self._limit

    def found(self) -> tuple[ColumnValues, Integers] | None:
        """Returns the values and their counts; None for none."""
        self._compact()
        return (self._values[0], self._counts[0]) if self._size else None

    def _compact(self) -> None:
        if self._size:
            values, counts = added_up(concatenated(self._values), np.concatenate(self._counts))
            self._values, self._counts, self._size = [values], [counts], len(values)


def concatenated(parts: Sequence[ColumnValues]) -> ColumnValues:
    """Returns the values of all parts, at least one."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], pa.Array):
        return pa.concat_arrays(parts)
    return np.concatenate([part for part in parts if isinstance(part, np.ndarray)])


def added_up(values: ColumnValues, counts: Integers) -> tuple[ColumnValues, Integers]:
    """Returns the distinct values with the sums of their counts."""
    if isinstance(values, pa.Array):
        encoded = values.dictionary_encode()
        sums = np.bincount(encoded.indices.to_numpy(), weights=counts, minlength=len(encoded.dictionary))
        return encoded.dictionary, sums.astype(np.int64)
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    firsts = _firsts(values)
    return values[firsts], np.add.reduceat(counts, firsts)


def _firsts(ordered: npt.NDArray[Any]) -> Integers:
    """Returns the first place of each value in a sorted array of at least one value."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def counted(values: ColumnValues) -> tuple[ColumnValues, Integers]:
    """Returns the distinct values and their counts, of at least one value."""
    if isinstance(values, pa.Array):
        found = pc.value_counts(values)
        return found.field("values"), found.field("counts").to_numpy()
    least = values.min()
    if values.dtype == np.int64 and int(values.max()) - int(least) < len(values):
        counts = np.bincount(values - least)
        some = np.flatnonzero(counts)
        return some + least, counts[some]
    # NumPy sorts numbers with vector instructions, many times as fast as they are looked up in a table.
    ordered = np.sort(values)
    firsts = _firsts(ordered)
    return ordered[firsts], np.diff(firsts, append=len(ordered))


def hashed(values: ColumnValues) -> Iterator[Hashes]:
    """Yields hashes of values; equal numbers or texts have the same hash in every process."""
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        # There are two zeros, and they are the same number.
        yield _mixed(_text_keys(block) if isinstance(block, pa.Array) else (block + 0).view(np.uint64))


def _mixed(keys: Hashes) -> Hashes:
    """Returns keys of which every bit depends on all bits of the given ones: the finalizer of SplitMix64."""
    mixed = keys ^ (keys >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _text_keys(texts: pa.Array) -> Hashes:
    """Returns a multilinear hash of each text: the sum of its bytes times a random number for each place."""
    lengths = pc.binary_length(texts).to_numpy().astype(np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
    some = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    keys: Hashes = _places(1)[0] * (lengths.astype(np.uint64) + np.uint64(1))
    if len(some):
        starts = offsets[:-1] - offsets[0]
        place = np.arange(len(some)) - np.repeat(starts, lengths)
        weighed = some.astype(np.uint64) * _places(int(lengths.max()) + 1)[1:][place]
        filled = lengths > 0
        keys[filled] += np.add.reduceat(weighed, starts[filled])
    return keys


def _places(count: int) -> Hashes:
    """Returns odd random numbers for the places of a text: always the same sequence."""
    drawn: Hashes = _mixed(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return drawn | np.uint64(1)
