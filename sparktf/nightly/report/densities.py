"""Densities of a column's values, for drawing: pure functions of its statistics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparktf.statistics.column_statistics import RANKS, ColumnStatistics, Spread, Value

Floats = npt.NDArray[np.float64]

_BINS = 28


def shared_edges(spreads: list[Spread]) -> Floats:
    """Returns the edges of bins over some spreads, without their outermost hundredths: float64 [n + 1].

    Args:
        spreads: With a number each, at least.
    """
    points = np.array([point for spread in spreads for point in _inner(spread)])
    low, high = float(points.min()), float(points.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _BINS + 1)


def density(spread: Spread, edges: Floats) -> Floats:
    """Returns the share of the numbers in each bin: float64 [n].

    Numbers are spread evenly between two quantiles; equal quantiles are one number of many rows.
    """
    values = np.array([_known(spread.min), *spread.quantiles, _known(spread.max)])
    ranks = np.linspace(0.0, 1.0, len(values)) if len(values) != len(RANKS) + 2 else np.array([0.0, *RANKS, 1.0])
    known, first = np.unique(values, return_index=True)
    last = np.append(first[1:], len(values)) - 1
    points = np.column_stack([np.nextafter(known, -np.inf), known]).ravel()
    reached = np.column_stack([ranks[first], ranks[last]]).ravel()
    until = np.interp(edges, points, reached)
    until[0] = np.interp(np.nextafter(edges[0], -np.inf), points, reached)  # values on the edge are in the first bin
    share: Floats = np.diff(until)
    return share


def value_shares(column: ColumnStatistics, rows: int) -> dict[Value, float]:
    """Returns the shares of the commonest values among the rows with a value."""
    count = rows - column.nulls - column.nans
    return {common.value: common.count / count for common in column.commonest} if count > 0 else {}


def _inner(spread: Spread) -> tuple[float, float]:
    if len(spread.quantiles) > 1:
        return spread.quantiles[0], spread.quantiles[-1]
    return _known(spread.min), _known(spread.max)


def _known(bound: float | None) -> float:
    return 0.0 if bound is None else bound
