"""The columns of a run's data beside those of the baseline: labels, and then the most changed first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparktf.nightly.data_checks import Baseline, Finding
from sparktf.nightly.report import words
from sparktf.statistics.column_statistics import RANKS, ColumnStatistics, Spread, TableStatistics, Value, number_text
from sparktf.statistics.distances import divergence, has_all_values, infinity_distance

Floats = npt.NDArray[np.float64]

DRAWN = 100
"""Columns that are drawn; for the others, figures are shown."""

_BARS = 8
_BINS = 28
_FEW = 12
"""Numbers with at most this many distinct values are drawn value by value."""

_TOLD = 3

NOTABLE = 0.02
"""From this distance on a column is shown at once, though its checks hold."""


@dataclass(frozen=True)
class ColumnShape:
    """The chart of a column: shares of both nights over the same places."""

    now: Floats  # float64 [n]; `then` likewise, None without a baseline
    then: Floats | None
    names: tuple[str, ...] = ()  # Of the places, where each is a value; else each is a bin between `low` and `high`
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class ColumnDrift:
    """One column."""

    name: str
    type: str
    is_label: bool
    distance: float | None  # From the baseline, by `measure`; None without one
    measure: str
    null_share: float  # Of the rows read; `null_share_then` of the baseline's, None without one
    null_share_then: float | None
    facts: tuple[tuple[str, str, str], ...]  # Other facts: name, now and then, in words
    changes: tuple[tuple[str, float, float], ...]  # Values whose shares differ most: value, now, then
    shape: ColumnShape | None
    remark: str  # That it is new, or had another type; "" for nothing
    found: tuple[str, ...]  # Checks that do not hold

    @property
    def is_quiet(self) -> bool:
        """Whether it is nothing to look at first: a feature that holds and has hardly changed."""
        return not (self.is_label or self.found or self.remark) and (self.distance or 0.0) < NOTABLE


@dataclass(frozen=True)
class TableDrift:
    """All columns of a run."""

    now: TableStatistics
    baseline: Baseline | None
    columns: tuple[ColumnDrift, ...]  # Labels first, then those with findings, then the most changed
    gone: tuple[str, ...]  # Columns that only the baseline has


def drift_of(now: TableStatistics, baseline: Baseline | None, found: Sequence[Finding]) -> TableDrift:
    """Returns the columns of a run's data, beside those of the baseline if there is one."""
    then = None if baseline is None else baseline.statistics
    by_column: dict[str, list[str]] = {}
    for finding in found:
        by_column.setdefault(finding.column, []).append(finding.text)
    columns = [_column(name, now, then, by_column.get(name, ())) for name in now.columns]
    columns.sort(key=lambda column: (not column.is_label, not column.found, -(column.distance or 0.0)))
    gone = () if then is None else tuple(name for name in then.columns if name not in now.columns)
    return TableDrift(now, baseline, tuple(columns), gone)


def _column(name: str, now: TableStatistics, then: TableStatistics | None, found: Sequence[str]) -> ColumnDrift:
    column, before = now.columns[name], None if then is None else then.columns.get(name)
    remark = ""
    if then is not None and before is None:
        remark = "has come"
    elif before is not None and before.type != column.type:
        remark = f"was {before.type}"
        before = None
    rows = (now.rows_read, 0 if then is None else then.rows_read)
    if not all(rows):
        before = None
    distance, measure = (None, "") if before is None else _distance(column, before, rows)
    return ColumnDrift(
        name=name,
        type=column.type,
        is_label=name in now.labels,
        distance=distance,
        measure=measure,
        null_share=column.nulls / max(rows[0], 1),
        null_share_then=None if before is None else before.nulls / rows[1],
        facts=tuple(_facts(column, before)),
        changes=() if before is None else _changes(column, before, rows),
        shape=_shape(column, before, rows),
        remark=remark,
        found=tuple(found),
    )


def _distance(now: ColumnStatistics, then: ColumnStatistics, rows: tuple[int, int]) -> tuple[float | None, str]:
    if now.type.startswith("array"):
        return None, ""
    if now.numbers is not None and then.numbers is not None:
        return divergence(now, then, rows), "Jensen-Shannon"
    return (infinity_distance(now, then, rows), "L-infinity") if now.commonest or then.commonest else (None, "")


def _facts(now: ColumnStatistics, then: ColumnStatistics | None) -> Iterator[tuple[str, str, str]]:
    spread, before = _spread(now), None if then is None else _spread(then)
    if spread is not None:
        kind = now.type if now.numbers is not None else "length"
        for what in ("min", "mean", "max"):
            value, old = getattr(spread, what), None if before is None else getattr(before, what)
            if value is not None:
                yield what, _number(value, kind), "" if old is None else _number(old, kind)
    if now.distinct is not None and now.numbers is None:
        old_distinct = "" if then is None or then.distinct is None else f"{then.distinct:,}"
        yield "distinct", f"{now.distinct:,}", old_distinct
    if now.nans:
        yield "NaN or infinite", f"{now.nans:,}", "" if then is None else f"{then.nans:,}"


def _number(value: float, kind: str) -> str:
    if kind == "date" or kind.startswith(("timestamp", "array<date", "array<timestamp")):
        return number_text(value, kind)
    return words.number(value, whole=value == round(value) and not kind.startswith(("float", "double", "decimal")))


def _spread(column: ColumnStatistics) -> Spread | None:
    spread = column.numbers if column.numbers is not None and column.numbers.quantiles else column.lengths
    return spread if spread is not None and spread.count else None


def _shape(now: ColumnStatistics, then: ColumnStatistics | None, rows: tuple[int, int]) -> ColumnShape | None:
    shares = value_shares(now, rows[0])
    old = {} if then is None else value_shares(then, rows[1])
    few = has_all_values(now, rows[0]) and len(shares.keys() | old.keys()) <= _FEW
    spread, before = _spread(now), None if then is None else _spread(then)
    if spread is None or (few and shares):
        return _of_values(shares, None if then is None else old) if shares else None
    edges = shared_edges([spread] if before is None else [spread, before])
    ends = [_number(float(edge), now.type if now.numbers is not None else "length") for edge in (edges[0], edges[-1])]
    then_density = None if before is None else density(before, edges)
    return ColumnShape(density(spread, edges), then_density, low=ends[0], high=ends[1])


def _of_values(now: Mapping[Value, float], then: Mapping[Value, float] | None) -> ColumnShape:
    old = then or {}
    are_numbers = all(isinstance(value, int | float) for value in (*now, *old))
    values = sorted(now.keys() | old.keys(), key=lambda v: -max(now.get(v, 0.0), old.get(v, 0.0)))[
        : _FEW if are_numbers else _BARS
    ]
    if are_numbers:
        values.sort(key=float)
    shares = np.array([now.get(value, 0.0) for value in values])
    before = None if then is None else np.array([old.get(value, 0.0) for value in values])
    return ColumnShape(shares, before, names=tuple(_shown(value) for value in values))


def _changes(
    now: ColumnStatistics, then: ColumnStatistics, rows: tuple[int, int]
) -> tuple[tuple[str, float, float], ...]:
    if now.numbers is not None and not has_all_values(now, rows[0]):
        return ()
    shares, old = value_shares(now, rows[0]), value_shares(then, rows[1])
    pairs = [(value, shares.get(value, 0.0), old.get(value, 0.0)) for value in shares.keys() | old.keys()]
    pairs.sort(key=lambda pair: (-abs(pair[1] - pair[2]), -pair[1], str(pair[0])))
    return tuple((_shown(value), new, was) for value, new, was in pairs[:_TOLD])


def _shown(value: Value) -> str:
    if isinstance(value, float):
        return words.number(value, whole=value == round(value))
    text = str(value)
    return text if len(text) <= 32 else f"{text[:31]}…"


def shared_edges(spreads: list[Spread]) -> Floats:
    """Returns edges of bins over nonempty spreads, without their outermost hundredths: float64 [n + 1]."""
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
