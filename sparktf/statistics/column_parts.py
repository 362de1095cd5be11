"""Partial statistics of a column, one part for each task, and their merge."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparktf.statistics.column_statistics import COMMONEST, RANKS, ColumnStatistics, Spread, Value, ValueCount
from sparktf.statistics.sketches import (
    ColumnValues,
    Distinct,
    Floats,
    Hashes,
    Integers,
    Moments,
    added_up,
    concatenated,
    hashed,
)


class ColumnKind(enum.StrEnum):
    """The measurements of a column."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"
    BYTES = "bytes"
    LIST = "list"
    NUMBER_LIST = "number list"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SpreadPart:
    """Distribution of some of a column's numbers."""

    moments: Moments
    points: Floats  # float64 [n], sorted; each stands for the same number of values


@dataclass(frozen=True, slots=True)
class ValuesPart:
    """Distinct values of some of a column's rows."""

    values: ColumnValues | None  # All of them, or the commonest ones; None for none
    counts: Integers  # How often each occurs, estimated by a sample if they are not all
    below: int = 0
    hashes: Hashes | None = None  # If they are not all: the values' hashes below `below`; else None


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """Partial statistics of a column from one task."""

    nulls: int
    nans: int
    numbers: SpreadPart | None
    lengths: SpreadPart | None
    values: ValuesPart | None


def put_together(type_name: str, kind: ColumnKind, parts: Sequence[ColumnPart]) -> ColumnStatistics:
    """Returns the statistics of a column of a Spark type, merged from the parts of all tasks."""
    all_values = [part.values for part in parts if part.values is not None]
    distinct, commonest = _values_of(kind, all_values)
    numbers = [part.numbers for part in parts if part.numbers is not None]
    lengths = [part.lengths for part in parts if part.lengths is not None]
    spread = _spread_of(lengths) if lengths else None
    return ColumnStatistics(
        type=type_name,
        nulls=sum(part.nulls for part in parts),
        nans=sum(part.nans for part in parts),
        numbers=_numbers_of(kind, numbers, spread),
        lengths=spread,
        distinct=distinct if all_values else None,
        commonest=() if kind is ColumnKind.OTHER else commonest,
    )


def _numbers_of(kind: ColumnKind, parts: Sequence[SpreadPart], lengths: Spread | None) -> Spread | None:
    if kind is ColumnKind.NUMBER_LIST:
        return _bounds_of(parts, lengths)
    return _spread_of(parts) if parts else None


def _spread_of(parts: Sequence[SpreadPart]) -> Spread:
    moments = Moments()
    for part in parts:
        moments = moments.and_(part.moments)
    if not moments.count:
        return Spread(count=0)
    points = np.concatenate([part.points for part in parts])
    weights = np.concatenate(
        [np.full(len(part.points), part.moments.count / max(len(part.points), 1)) for part in parts]
    )
    order = np.argsort(points)
    until = np.cumsum(weights[order])
    quantiles = points[order][np.searchsorted(until, np.array(RANKS) * until[-1])]
    return Spread(
        count=moments.count,
        min=moments.min,
        max=moments.max,
        mean=moments.mean,
        deviation=float(np.sqrt(moments.squares / moments.count)),
        quantiles=tuple(quantiles.tolist()),
    )


def _bounds_of(parts: Sequence[SpreadPart], lengths: Spread | None) -> Spread:
    """Returns the bounds of the numbers within lists; `count` is the number of lists."""
    moments = Moments()
    for part in parts:
        moments = moments.and_(part.moments)
    if not moments.count or lengths is None:
        return Spread(count=0)
    return Spread(count=lengths.count, min=moments.min, max=moments.max)


def _values_of(kind: ColumnKind, parts: Sequence[ValuesPart]) -> tuple[int, tuple[ValueCount, ...]]:
    """Returns the number of distinct values, and the commonest ones."""
    some = [part for part in parts if part.values is not None]
    values, counts = _added_up(some)
    sketched = [part.hashes for part in parts if part.hashes is not None]
    distinct = 0 if values is None else len(values)
    if sketched:
        merged = Distinct(max(len(hashes) for hashes in sketched))
        for part in parts:
            if part.hashes is not None:
                merged.cut(part.below)
                merged.add(part.hashes)
            elif part.values is not None:
                merged.add_all(hashed(part.values))
        distinct = merged.estimate()
    if values is None:
        return distinct, ()
    # If there are many values, those that occur once are left out: any choice among them would be arbitrary.
    worth = np.flatnonzero(counts > (1 if distinct > COMMONEST else 0))
    least = np.sort(counts[worth])[-COMMONEST:].min(initial=0)
    first = worth[counts[worth] >= least]
    found = zip(_to_python(kind, values, first), counts[first].tolist(), strict=True)
    ranked = sorted(found, key=lambda common: (-common[1], str(common[0])))
    return distinct, tuple(ValueCount(value=value, count=count) for value, count in ranked[:COMMONEST])


def _added_up(parts: Sequence[ValuesPart]) -> tuple[ColumnValues | None, Integers]:
    if not parts:
        return None, np.empty(0, np.int64)
    values = concatenated([part.values for part in parts if part.values is not None])
    return added_up(values, np.concatenate([part.counts for part in parts]))


def _to_python(kind: ColumnKind, values: ColumnValues, chosen: Integers) -> list[Any]:
    if isinstance(values, pa.Array):
        return [value.decode(errors="replace") for value in values.take(pa.array(chosen)).to_pylist()]
    found: list[Value] = values[chosen].tolist()
    return [bool(value) for value in found] if kind is ColumnKind.TRUTH else found
