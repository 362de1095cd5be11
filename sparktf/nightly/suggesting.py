"""Suggests `data.checks` from the statistics of earlier nights: pure.

Each bound leaves room for what other nights may have: the less, the more nights are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from sparktf.errors import CorruptFileError
from sparktf.nightly.data_checks import ColumnPair, comparable_columns, has_distance
from sparktf.statistics.column_statistics import (
    Spread,
    TableStatistics,
    Value,
    number_text,
)
from sparktf.statistics.distances import has_all_values
from sparktf.told import count_in_words, told

_LEAST_ROOM = 0.1
_FIRST_ROOM = 0.5
"""Share of a range that a bound leaves beyond what one night had; of k nights, 1 / sqrt(k) of it."""

_SHARE_ROOM = 0.01
"""Least room of a share of the rows."""

_CATEGORIES, _NUMBER_CATEGORIES = 20, 10
"""Most values of text, and of whole numbers, that are taken for all that there may be."""

_OFTEN = 5
"""A value that is rarer than this many rows says that there are others, which no night has had yet."""

_UNIQUE = 0.5
"""Distinct values by rows from which on a column names its row."""

_FIRST_DISTANCES = {"linf": 0.1, "js": 0.1, "label": 0.05}
_LEAST_DISTANCE = 0.02
"""Least bounds of drift: after one night, which says nothing of two, and after many."""

_NULL_DRIFT = 0.02

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_MOVING = ("date", "timestamp")


class NightData(NamedTuple):
    """The data of a run, by its statistics."""

    run_id: str
    statistics: TableStatistics

    @classmethod
    def read(cls, run_id: str, content: bytes) -> NightData | None:
        """Parses the statistics that a run has stored; None if it had no rows.

        Raises:
            CorruptFileError: it cannot be read; the message says why.
        """
        try:
            statistics = TableStatistics.model_validate_json(content)
        except ValidationError as error:
            differ = f"another version of sparktf has written them ({error.error_count()} fields differ)"
            raise CorruptFileError(f"the statistics of run {run_id} cannot be read: {differ}") from None
        return cls(run_id, statistics) if statistics.rows_read else None


class SuggestedBound(NamedTuple):
    """A bound, and what it is derived from.

    Attributes:
        key: Below `data.checks`: ("refuse", "columns", "age", "max").
        value: As the configuration has it; None for a remark on a column without bounds.
    """

    key: tuple[str, ...]
    value: Any
    why: str


def suggest_bounds(nights: Sequence[NightData]) -> list[SuggestedBound]:
    """Returns bounds that all these nights keep, in the order of the configuration.

    Args:
        nights: At least one, the first one first.
    """
    tables = [night.statistics for night in nights]
    columns = [_Column(name, tables) for name in tables[-1].columns]
    refuse = [_rows(tables)]
    warn: list[SuggestedBound] = []
    for column in columns:
        refuse += column.facts()
        warn += column.figures()
    refuse.append(SuggestedBound(("refuse", "drift", "columns"), True, "no column may come, go or change its type"))
    return [*refuse, *warn, *_drift(tables, [column.name for column in columns if column.moves])]


def room(nights: int) -> float:
    """Returns the share of a range that a bound leaves beyond what so few nights had."""
    return max(_FIRST_ROOM / math.sqrt(nights), _LEAST_ROOM)


def _rows(tables: Sequence[TableStatistics]) -> SuggestedBound:
    counts = [table.rows for table in tables]
    return SuggestedBound(("refuse", "rows"), _times(counts), f"{_span(counts)} rows {_in(tables)}")


class _Column:
    """One column over the nights."""

    def __init__(self, name: str, tables: Sequence[TableStatistics]) -> None:
        self.name = name
        self._tables = [table for table in tables if name in table.columns]
        self._each = [table.columns[name] for table in self._tables]
        self._type = self._each[-1].type
        self._room, self._in = room(len(self._each)), _in(self._each)
        spreads = [column.numbers for column in self._each]
        self._numbers = [spread for spread in spreads if spread is not None and spread.count]
        self._values = self._categories()

    @property
    def moves(self) -> bool:
        """Whether each night has other values, as days and numbers of rows have."""
        return self._type.startswith(_MOVING) or self._is_unique

    @property
    def _is_unique(self) -> bool:
        rows = sum(table.rows_read for table in self._tables)
        distinct = sum(column.distinct or 0 for column in self._each)
        return self._type in (*_WHOLE, "string") and distinct > max(_UNIQUE * rows, _CATEGORIES)

    def facts(self) -> Iterator[SuggestedBound]:
        """Yields the bounds whose breach is a mistake in the data."""
        key = ("refuse", "columns", self.name)
        if self.moves:
            why = f"{self._type}: " + (
                "other values in nearly each row" if self._is_unique else "moves on with the nights"
            )
            yield SuggestedBound(key, None, f"{why}, no bounds of its values")
        elif self._numbers and len({*_ends_of(self._numbers)}) == 1:
            only = number_text(_ends_of(self._numbers)[0], self._type)
            yield SuggestedBound(key, None, f"always {only} {self._in}, no bounds of its values")
        elif self._values:
            often = f"all values {self._in}, the rarest in {min(self._values.values()):,} rows"
            yield SuggestedBound((*key, "values"), [as_written(v) for v in sorted(self._values, key=_rank)], often)
        elif self._numbers:
            yield from self._ends(key)
        yield from self._share((*key, "null_share"), [column.nulls for column in self._each], "null")
        if "float" in self._type or "double" in self._type:
            yield from self._share((*key, "nan_share"), [column.nans for column in self._each], "NaN or infinite")
        yield from self._length((*key, "length"))

    def figures(self) -> Iterator[SuggestedBound]:
        """Yields the bounds of what is usual."""
        key = ("warn", "columns", self.name)
        if self.moves or self._type == "boolean":
            return
        means = [spread.mean for spread in self._numbers if spread.mean is not None]
        deviations = [spread.deviation for spread in self._numbers if spread.deviation is not None]
        if means and deviations and max(deviations) > 0 and all(map(math.isfinite, (*means, *deviations))):
            margin = self._room * (max(deviations) / 2 + max(means) - min(means))
            yield SuggestedBound((*key, "mean"), _around(means, margin), f"{_span(means)} {self._in}")
            if not self._values:
                yield SuggestedBound((*key, "deviation"), _times(deviations), f"{_span(deviations)} {self._in}")
        counts = [column.distinct for column in self._each if column.distinct]
        if counts and self._type == "string" and not self._values:
            yield SuggestedBound((*key, "distinct"), _times(counts), f"{_span(counts)} distinct values {self._in}")

    def _ends(self, key: tuple[str, ...]) -> Iterator[SuggestedBound]:
        least, most = _ends_of(self._numbers)
        width = most - least if most > least else max(abs(most), 1.0)
        low, high = _around([least, most], self._room * width)
        low, high = (0 if least >= 0 > low else low), (0 if most <= 0 < high else high)
        none = ", none below 0" if least >= 0 else ""
        yield SuggestedBound((*key, "min"), low, f"the least is {number_text(least, self._type)} {self._in}{none}")
        yield SuggestedBound((*key, "max"), high, f"the greatest is {number_text(most, self._type)} {self._in}")

    def _share(self, key: tuple[str, ...], counts: Sequence[int], what: str) -> Iterator[SuggestedBound]:
        shares = [n / max(table.rows_read, 1) for n, table in zip(counts, self._tables, strict=True)]
        most = max(shares)
        bound = math.ceil(1000 * max(most * (1 + 2 * self._room), most + _SHARE_ROOM)) / 1000
        if bound < 1:
            why = f"up to {most:.3%} of the rows are {what} {self._in}" if most else f"no row is {what} {self._in}"
            yield SuggestedBound(key, bound, why)

    def _length(self, key: tuple[str, ...]) -> Iterator[SuggestedBound]:
        lengths = [column.lengths for column in self._each if column.lengths is not None and column.lengths.count]
        if lengths:
            least, most = _ends_of(lengths)
            value = [_plain(least), _plain(most)] if least == most else _times([least, most], self._room)
            yield SuggestedBound(key, value, f"{_span([least, most])} {self._in}")

    def _categories(self) -> dict[Value, int]:
        """Returns all values that there may be, with their rows; none where others are likely, or possible anyway."""
        whole = all(has_all_values(c, t.rows_read) for c, t in zip(self._each, self._tables, strict=True))
        found: dict[Value, int] = {}
        for common in (common for column in self._each for common in column.commonest):
            found[common.value] = found.get(common.value, 0) + common.count
        are_numbers = all(isinstance(value, float | int) and not isinstance(value, bool) for value in found)
        is_text = all(isinstance(value, str) for value in found)
        if are_numbers and not all(float(value).is_integer() for value in found):
            return {}
        most = _NUMBER_CATEGORIES if are_numbers else _CATEGORIES if is_text else 0
        return found if whole and 0 < len(found) <= most and min(found.values()) >= _OFTEN else {}


def _drift(tables: Sequence[TableStatistics], ignored: Sequence[str]) -> Iterator[SuggestedBound]:
    key, latest = ("warn", "drift"), tables[-1]
    factor = round(1 + 2 * room(len(tables)), 2)
    counts = [table.rows for table in tables if table.rows]
    ratios = [after / before for before, after in itertools.pairwise(counts)]
    value = [_down(min([1 / factor, *ratios]), 0.01), _up(max([factor, *ratios]), 0.01)]
    yield SuggestedBound((*key, "row_ratio"), value, _of_nights(ratios, "{:.2f} to {:.2f} from one night to the next"))
    pairs = [
        pair for before, after in itertools.pairwise(tables) for pair in comparable_columns(after, before, ignored)
    ]
    nulls = [abs(pair.now.nulls / pair.rows[0] - pair.before.nulls / pair.rows[1]) for pair in pairs]
    bound = min(_up(max([_NULL_DRIFT, *(2 * share for share in nulls)]), 0.001), 1.0)
    why = "up to {1:.3%} from one night to the next" if any(nulls) else "the same share each night"
    yield SuggestedBound((*key, "null_share"), bound, _of_nights(nulls, why))
    kinds = {_setting(name, latest) for name in latest.columns if name not in ignored} - {""}
    for setting in sorted(kinds, key=list(_FIRST_DISTANCES).index):
        least = max(_FIRST_DISTANCES[setting] * room(len(tables)) / _FIRST_ROOM, _LEAST_DISTANCE)
        yield _distance_bound((*key, setting), [p for p in pairs if has_distance(p)], latest, least)
    if ignored:
        yield SuggestedBound((*key, "ignore"), list(ignored), "other values each night")


def _distance_bound(
    key: tuple[str, ...], pairs: Sequence[ColumnPair], latest: TableStatistics, least: float
) -> SuggestedBound:
    setting = key[-1]
    mine = [pair for pair in pairs if _setting(pair.name, latest) == setting]
    if not mine:
        return SuggestedBound(key, least, _of_nights((), ""))
    apart, farthest = max((pair.distance(as_label=setting == "label")[1], pair.name) for pair in mine)
    bound = min(_up(max(2 * apart, least), 0.01), 1.0)
    return SuggestedBound(key, bound, f"up to {apart:.4f} from one night to the next, column {told(farthest)}")


def _setting(name: str, table: TableStatistics) -> str:
    """Returns the setting of drift that a column falls under; "" for none."""
    column = table.columns[name]
    if "array" in column.type or (column.numbers is None and not column.commonest and column.distinct is None):
        return ""
    if name in table.labels:
        return "label"
    return "linf" if column.numbers is None else "js"


def _of_nights(figures: Sequence[float], text: str) -> str:
    """Returns the figures of nights beside each other in words; one night alone has none."""
    return text.format(min(figures), max(figures)) if figures else "as is usual: one night has no other to differ from"


def _ends_of(spreads: Sequence[Spread]) -> tuple[float, float]:
    return (
        min(spread.min for spread in spreads if spread.min is not None),
        max(spread.max for spread in spreads if spread.max is not None),
    )


def _times(figures: Sequence[float], share: float | None = None) -> list[float]:
    """Returns a range with room by a factor, for figures that are not negative."""
    factor = 1 + 2 * (room(len(figures)) if share is None else share)
    least, most = min(figures), max(figures)
    return [_down(least / factor, _step(least / factor)), _up(most * factor, _step(most * factor))]


def _around(figures: Sequence[float], margin: float) -> list[float]:
    """Returns a range with a margin, in round numbers."""
    step = _step(margin)
    return [_down(min(figures) - margin, step), _up(max(figures) + margin, step)]


def _step(size: float) -> float:
    """Returns the unit of the second digit of a size."""
    return 10.0 ** (math.floor(math.log10(size)) - 1) if 0 < size < math.inf else 0.0


def _down(figure: float, step: float) -> float:
    rounded = _plain(float(f"{math.floor(figure / step) * step:.12g}")) if _can_round(figure, step) else figure
    return rounded if rounded <= figure else _plain(figure)


def _up(figure: float, step: float) -> float:
    return _plain(-_down(-figure, step))


def _can_round(figure: float, step: float) -> bool:
    return step > 0 and math.isfinite(figure) and math.isfinite(figure / step)


def as_written(value: Any) -> Any:
    """Returns a value as a person writes it: a whole number without a point."""
    return _plain(value) if isinstance(value, float) else value


def _plain(figure: float) -> float:
    """Returns a whole number as such, and no negative zero."""
    return int(figure) if math.isfinite(figure) and float(figure).is_integer() and abs(figure) < 1e15 else figure


def _span(figures: Sequence[float]) -> str:
    least, most = (f"{end:,}" if isinstance(end, int) else f"{end:.6g}" for end in (min(figures), max(figures)))
    return least if least == most else f"{least} to {most}"


def _in(nights: Sequence[Any]) -> str:
    return f"in {count_in_words(len(nights), 'night')}"


def _rank(value: Value) -> tuple[bool, float, str]:
    is_text = isinstance(value, str)
    return is_text, 0.0 if isinstance(value, str) else float(value), str(value)
