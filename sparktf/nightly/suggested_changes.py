"""Suggests changes to the present `data.checks` from the statistics of earlier nights: pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sparktf.config.checks import MOST_VALUES, BoundsConfig, ChecksConfig
from sparktf.config.yaml import flow_yaml
from sparktf.nightly.data_checks import Baseline, findings
from sparktf.nightly.suggesting import NightData, SuggestedBound, as_written, suggest_bounds
from sparktf.statistics.column_statistics import TableStatistics, number_text
from sparktf.told import count_in_words

_NIGHTS_TO_TIGHTEN = 5
_WIDE = 4.0
"""A bound is too wide to notice anything if it leaves this many times the room of the suggested one."""

_BY_HAND = ("min", "max", "values", "length", "columns", "ignore")
"""What a person knows better than a few nights do: it only becomes wider."""


def suggest_changes(present: ChecksConfig, nights: Sequence[NightData]) -> list[SuggestedBound]:
    """Returns the present bounds, changed where nights say so, and new ones for what has none.

    A bound that a night breaks becomes wider; one that none of several nights comes near becomes narrower.

    Args:
        nights: At least one, the first one first.
    """
    mine = dict(_leaves(present.model_dump(exclude_defaults=True)))
    if not mine:
        return suggest_bounds(nights)
    suggested = {bound.key[1:]: bound for bound in suggest_bounds(nights)}
    breaches: dict[str, set[str]] = {}
    for level, bounds in (("refuse", present.refuse), ("warn", present.warn)):
        for key, text in _breaches(level, bounds, nights):
            breaches.setdefault(key, set()).add(text)
    found = [
        _changed(SuggestedBound(key, value, ""), suggested.get(key[1:]), breaches.get(".".join(key), set()), nights)
        for key, value in mine.items()
    ]
    bounded = {key[1:] for key in mine}
    new = [
        bound if bound.value is None else bound._replace(why=f"new: {bound.why}")
        for rest, bound in suggested.items()
        if _is_new(rest, bounded)
    ]
    return [*found, *new]


def _leaves(checks: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields each setting, by its key below `data.checks`."""
    for name, value in checks.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), [as_written(v) for v in value] if isinstance(value, tuple) else as_written(value)


def _breaches(level: str, bounds: BoundsConfig, nights: Sequence[NightData]) -> Iterator[tuple[str, str]]:
    """Yields the bounds that nights break, with the night."""
    for before, night in zip((None, *nights), nights, strict=False):
        then = None if before is None else Baseline(before.run_id, before.statistics)
        known = {name: column for name, column in bounds.columns.items() if name in night.statistics.columns}
        for part in ({}, *({name: column} for name, column in known.items())):
            alone = bounds.model_copy(update={"columns": part})
            try:
                broken = findings(level, alone, night.statistics, then)
            except ValueError:  # a bound of another type than the column has by now, as `sparktf check` says
                continue
            yield from ((finding.key, night.run_id) for finding in broken)


def _changed(
    mine: SuggestedBound, suggested: SuggestedBound | None, broke: Collection[str], nights: Sequence[NightData]
) -> SuggestedBound:
    """Returns a present bound as it is, or wider, or narrower.

    Args:
        broke: The nights that break it.
    """
    was, value = mine.value, mine.value
    if broke:
        value = _wider(mine, None if suggested is None else suggested.value, nights)
    elif suggested is not None and mine.key[-1] not in _BY_HAND and len(nights) >= _NIGHTS_TO_TIGHTEN:
        value = suggested.value if _is_too_wide(was, suggested.value) else was
    change = f"was {flow_yaml(was)}" if value != was else "as it is"
    count = f"{len(broke)} of {count_in_words(len(nights), 'night')} broke it" if broke else ""
    why = "; ".join(filter(None, (count, "" if suggested is None else suggested.why)))
    return mine._replace(value=value, why=f"{change}: {why}" if why else change)


def _wider(mine: SuggestedBound, suggested: Any, nights: Sequence[NightData]) -> Any:
    """Returns a bound that admits all nights."""
    was, figure = mine.value, mine.key[-1]
    if isinstance(was, bool):
        return was
    if figure == "values":
        return _more_values(was, mine.key[-2], nights)
    if figure in ("min", "max"):
        ends = [was, *_ends(mine.key[-2], figure, nights), *([] if suggested is None else [suggested])]
        same = [end for end in ends if isinstance(end, str) is isinstance(was, str)]
        return (min if figure == "min" else max)(same)
    if isinstance(was, list):
        return was if suggested is None else [min(was[0], suggested[0]), max(was[1], suggested[1])]
    return 1.0 if suggested is None else max(was, suggested)


def _more_values(was: list[Any], name: str, nights: Sequence[NightData]) -> list[Any]:
    seen = [common.value for column in _columns(name, nights) for common in column.commonest]
    more = list(dict.fromkeys(as_written(value) for value in seen if value not in was))
    return [*was, *more][:MOST_VALUES]


def _ends(name: str, figure: str, nights: Sequence[NightData]) -> Iterator[float | str]:
    """Yields the least or greatest value of each night, as the configuration writes it."""
    for column in _columns(name, nights):
        end = getattr(column.numbers, figure, None)
        if end is not None:
            is_moment = column.type.removeprefix("array<").startswith(("date", "timestamp"))
            yield number_text(end, column.type) if is_moment else end


def _columns(name: str, nights: Sequence[NightData]) -> list[Any]:
    tables: list[TableStatistics] = [night.statistics for night in nights]
    return [table.columns[name] for table in tables if name in table.columns]


def _is_too_wide(was: Any, suggested: Any) -> bool:
    if isinstance(was, list):
        inside = was[0] <= suggested[0] and suggested[1] <= was[1] and all(map(math.isfinite, was))
        return inside and was[1] - was[0] > _WIDE * (suggested[1] - suggested[0])
    return not isinstance(was, bool) and was > _WIDE * suggested


def _is_new(rest: tuple[str, ...], bounded: set[tuple[str, ...]]) -> bool:
    """Whether nothing is said yet of a column's figure, or of one that would say the same."""
    if rest in bounded:
        return False
    if rest[0] == "columns" and len(rest) == 2:  # a remark on a column without bounds
        return not any((*rest, figure) in bounded for figure in ("min", "max", "values"))
    same = {"min": ("values",), "max": ("values",), "values": ("min", "max")}.get(rest[-1], ())
    return not any((*rest[:-1], other) in bounded for other in same)
