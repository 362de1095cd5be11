"""Statistics of the columns of a run's data, as stored in `statistics.json`.

Numbers are as tensors have them: dates are days since 1970, times and timestamps microseconds.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

from sparktf.message import Message

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

RANKS = tuple(i / 100 for i in range(1, 100))
"""Ranks of `quantiles`: the share of a column's values that are not greater."""

COMMONEST = 100
"""Number of the commonest values that are kept."""

TEXT_LENGTH = 256
"""Characters of a text that are kept; texts with the same ones count as one value."""

Value = bool | int | float | str


class ValueCount(Message):
    """A value and the number of rows that have it."""

    value: Value
    count: int


class Spread(Message):
    """Distribution of numbers."""

    count: int  # Number of values; without any, the rest is None or empty
    min: float | None = None
    max: float | None = None
    mean: float | None = None  # Of the `count` numbers, as are all the others
    deviation: float | None = None  # Standard deviation of the whole population
    quantiles: tuple[float, ...] = ()  # At `RANKS`; none where only the outer bounds are measured


class ColumnStatistics(Message):
    """One column of the rows that were read."""

    type: str  # Spark's name of it
    nulls: int  # Rows without a value
    nans: int = 0  # Rows whose value is not finite, or whose list holds such a value; `numbers` is without them
    # Of a number, date or timestamp; of a list of these, only `min` and `max` over all its values
    numbers: Spread | None = None
    lengths: Spread | None = None  # Of the lists, or of binary values in bytes
    distinct: int | None = None  # Number of distinct values, within some 5 %; None for lists and binary values
    # The commonest values, the most frequent first; exact if there are few distinct ones
    commonest: tuple[ValueCount, ...] = ()


class TableStatistics(Message):
    """The used columns of a run's source: all rows that pass `data.where`, held out or not."""

    rows: int  # Rows of the source; estimated if only a sample was read and no footer has the number
    sample: float  # Share of the rows that was read
    rows_read: int  # Number of rows that were read
    columns: dict[str, ColumnStatistics]
    labels: tuple[str, ...] = ()  # The columns of the targets


def number_of(bound: float | str, kind: str) -> float:
    """Returns a bound as a number of the statistics: days or microseconds since 1970, in UTC, for a text.

    `kind` is Spark's type of the column.

    Raises:
        ValueError: the column's values are days or times and the bound is not, or the other way round.
    """
    value = _value_of(kind)
    if isinstance(bound, str) is not (value == "date" or value.startswith("timestamp")):
        raise ValueError(f"{bound!r} is no {value}")
    if not isinstance(bound, str):
        return bound
    if value == "date":
        return float((dt.date.fromisoformat(bound) - _EPOCH.date()).days)
    time = dt.datetime.fromisoformat(bound)
    return float((time.replace(tzinfo=time.tzinfo or dt.UTC) - _EPOCH) // _MICROSECOND)


def number_text(number: float, kind: str) -> str:
    """Returns a number of the statistics for people."""
    value = _value_of(kind)
    with suppress(OverflowError):  # a day that no calendar of Python's has
        if value == "date":
            return str(_EPOCH.date() + dt.timedelta(days=number))
        if value.startswith("timestamp"):
            return (_EPOCH + dt.timedelta(microseconds=number)).replace(tzinfo=None).isoformat(" ")
    return f"{number:.10g}"


def _value_of(kind: str) -> str:
    """Returns the type of a column's values, or of its lists' values."""
    return kind.removeprefix("array<").removesuffix(">") if kind.startswith("array<") else kind
