"""Distances between two distributions that are given by the statistics of a column: pure functions.

L-infinity distance of categories: the greatest difference of a value's share, max |p(v) - q(v)|.
Jensen-Shannon divergence, in bits: H(m) - (H(p) + H(q)) / 2, where m = (p + q) / 2 and H is Shannon's entropy to base 2
(J. Lin, Divergence measures based on the Shannon entropy, IEEE Transactions on Information Theory 37, 1991). It is 0
for equal distributions and 1 for disjoint ones. TensorFlow Data Validation measures drift by these two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparktf.statistics.column_statistics import RANKS, ColumnStatistics, Spread, Value

Floats = npt.NDArray[np.float64]

_DECILES = slice(9, None, 10)
"""Of `RANKS`: 0.1 to 0.9."""

_COMMON = 0.05
"""A number with this share of either side gets a separate bin."""


def infinity_distance(one: ColumnStatistics, other: ColumnStatistics, rows: tuple[int, int]) -> float:
    """Returns the L-infinity distance of two columns' values, by their commonest ones; 0 if one has none.

    The share of a value outside an incomplete list is at most that of the list's last one. The distance assumes the
    nearest share that is possible: it is never overestimated. `rows` are the rows that were read of each.
    """
    first, second = _shares(one, rows[0]), _shares(other, rows[1])
    if not first.count or not second.count:
        return 0.0
    values = first.shares.keys() | second.shares.keys()
    return max((_apart(first, second, value) for value in values), default=0.0)


def divergence(one: ColumnStatistics, other: ColumnStatistics, rows: tuple[int, int]) -> float:
    """Returns the Jensen-Shannon divergence of two columns of numbers, in bits; 0 if one has no numbers.

    If the commonest values are all values, their shares are compared; else the shares of bins, which end at the deciles
    of either column. A decile that holds 5 % of the rows or more is a separate bin. `rows` were read of each.
    """
    if one.numbers is None or other.numbers is None or not one.numbers.count or not other.numbers.count:
        return 0.0
    first, second = _shares(one, rows[0]), _shares(other, rows[1])
    if first.is_whole and second.is_whole:
        values = sorted(first.shares.keys() | second.shares.keys(), key=str)
        exact = [np.array([s.shares.get(value, 0.0) for value in values]) for s in (first, second)]
        return jensen_shannon(*exact)
    edges = np.unique([*_edges(one.numbers), *_edges(other.numbers)])
    (p_at, p_below), (q_at, q_below) = _masses(one.numbers, first, edges), _masses(other.numbers, second, edges)
    is_common = (p_at >= _COMMON) | (q_at >= _COMMON)
    p, q = (
        np.append(at[is_common], below + np.where(is_common, 0.0, at))
        for at, below in ((p_at, p_below), (q_at, q_below))
    )
    return jensen_shannon(p, q)


def jensen_shannon(p: Floats, q: Floats) -> float:
    """Returns the Jensen-Shannon divergence of two distributions over the same bins, in bits.

    Each is float64 [n], none negative, of any sum above 0.
    """
    p, q = p / p.sum(), q / q.sum()
    return max(0.0, _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2)


def has_all_values(column: ColumnStatistics, rows: int) -> bool:
    """Whether the commonest values of a column are all its values, among `rows` that were read."""
    return _shares(column, rows).is_whole


def _entropy(p: Floats) -> float:
    some = p[p > 0]
    return float(-(some * np.log2(some)).sum())


@dataclass(frozen=True, slots=True)
class _Shares:
    """Shares of a column's commonest values among the rows with a value."""

    count: int  # Rows with a value
    shares: Mapping[Value, float]
    is_whole: bool  # Whether these are all values
    least: float  # No other value has a greater share


def _shares(column: ColumnStatistics, rows: int) -> _Shares:
    count = rows - column.nulls - column.nans
    counts = {common.value: common.count for common in column.commonest}
    shares = {value: n / count for value, n in counts.items()}
    is_whole = sum(counts.values()) >= count
    return _Shares(count, shares, is_whole, 0.0 if is_whole else min(shares.values(), default=1.0))


def _apart(one: _Shares, other: _Shares, value: Value) -> float:
    p, q = one.shares.get(value), other.shares.get(value)
    if p is None:
        return max(0.0, (q or 0.0) - one.least)
    return max(0.0, p - other.least) if q is None else abs(p - q)


def _edges(numbers: Spread) -> Sequence[float]:
    return [_known(numbers.min), *numbers.quantiles[_DECILES], _known(numbers.max)]


def _masses(numbers: Spread, values: _Shares, edges: Floats) -> tuple[Floats, Floats]:
    """Returns the share of the numbers at each edge, and between it and the one before: float64 [n] each."""
    if values.is_whole:
        known, weights = (np.array(list(part), np.float64) for part in (values.shares.keys(), values.shares.values()))
        below = np.array([weights[known < edge].sum() for edge in edges])
        until = np.array([weights[known <= edge].sum() for edge in edges])
    else:
        at, middle = np.array([values.shares.get(float(edge), 0.0) for edge in edges]), _ranks(numbers, edges)
        below, until = middle - at / 2, middle + at / 2
    return until - below, np.maximum(below - np.append(0.0, until[:-1]), 0.0)


def _ranks(numbers: Spread, points: Floats) -> Floats:
    """Returns the share of the numbers below each point, plus half of the share equal to it: float64 [n].

    Numbers are spread evenly between two quantiles; equal quantiles are one number that many rows have.
    """
    values = np.array([_known(numbers.min), *numbers.quantiles, _known(numbers.max)])
    ranks = np.array([0.0, *RANKS, 1.0])
    known, first = np.unique(values, return_index=True)
    last = np.append(first[1:], len(values)) - 1
    place = np.searchsorted(known, points)
    after, before = np.minimum(place, len(known) - 1), np.maximum(place - 1, 0)
    gap = np.where(known[after] > known[before], known[after] - known[before], 1.0)
    rise = (ranks[first[after]] - ranks[last[before]]) * (points - known[before]) / gap
    between = np.where(place == 0, 0.0, np.where(place == len(known), 1.0, ranks[last[before]] + rise))
    return np.where(known[after] == points, (ranks[first[after]] + ranks[last[after]]) / 2, between)


def _known(bound: float | None) -> float:
    return 0.0 if bound is None else bound
