"""A metric of all runs of a name over time, beside the champion's, with the nights that are missing."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from sparktf.nightly.report import words
from sparktf.nightly.report.charts import from_to, name_marks, number_ticks, shortened
from sparktf.nightly.report.drawing import BAD, CARD, INK, LINE, NOW, THEN, WARN, Pen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEFORE = 7
"""Values that a jump is told from."""

_FEWEST = 3
_SPREADS = 5.0
_SHARE = 0.01
"""A jump is farther from the median of the values before it than so many of their spreads and this share of it."""

_TOLD_WIDTH = 170.0
"""Of two differences that are written beside their marks, in units."""

_APART = 1.5
"""So many times the usual distance between runs is a gap."""

_DAY_S = 86_400.0


class DatedMetric(NamedTuple):
    """A metric in one run."""

    at: float  # Its place on the axis, in days
    value: float | None  # None if it has no model
    champion: float | None  # The published model's value on the same rows
    published: bool  # Whether the run published its model


class DatedAxis(NamedTuple):
    """The places of runs on the axis, the earliest first."""

    places: tuple[float, ...]
    names: tuple[str, ...]  # Of the places, if these are mere numbers of runs; () for days since 1970

    @property
    def usual(self) -> float | None:
        """The usual distance between runs; None for too few of them to tell."""
        apart = sorted(b - a for a, b in pairwise(self.places) if b > a)
        return apart[(len(apart) - 1) // 2] if len(apart) > 1 else None


def axis_of(runs: Sequence[tuple[str, str, str]]) -> DatedAxis:
    """Returns the places of runs, given as date, id and start: by date, else by start, else one after the other."""
    days = [_day(date) or _day(run_id) for date, run_id, _ in runs]
    known = [day for day in days if day is not None]
    if len(known) < len(runs):
        known = [dt.datetime.fromisoformat(started).timestamp() / _DAY_S for _, _, started in runs if started]
    if len(known) == len(runs) and all(a <= b for a, b in pairwise(known)):
        return DatedAxis(tuple(known), ())
    return DatedAxis(tuple(float(n) for n in range(len(runs))), tuple(date or run_id for date, run_id, _ in runs))


def jumps(values: Sequence[float | None]) -> dict[int, float]:
    """Returns where a value is far from those before it, and by how much."""
    found: dict[int, float] = {}
    for n, value in enumerate(values):
        before = [v for v in values[:n] if v is not None][-_BEFORE:]
        if value is None or len(before) < _FEWEST:
            continue
        middle = statistics.median(before)
        spread = statistics.median(abs(v - middle) for v in before)
        if abs(value - middle) > max(_SPREADS * spread, _SHARE * abs(middle)):
            found[n] = value - middle
    return found


def by_date(pen: Pen, name: str, axis: DatedAxis, nights: Sequence[DatedMetric]) -> str | None:
    """Draws a metric of all runs of a name, the earliest first: filled where the model was published.

    Beside each point is the champion's on the same rows, because the rows differ from night to night. Only runs that
    follow each other as usual are joined.
    """
    known = [(night.at, night.value) for night in nights if night.value is not None]
    if not known:
        return None
    axes = pen.axes(2.7)
    marks = {"this run's model": (NOW, "o")}
    if any(night.champion is not None for night in nights):
        marks["the champion"] = (THEN, "_")
    _draw_gaps(axes, axis, marks)
    _join(axes, axis, known)
    for night in nights:
        _draw_night(axes, night, marks)
    _draw_jumps(axes, nights, marks, room=_TOLD_WIDTH / (pen.width_in * 72))
    axes.margins(x=0.03, y=0.14)
    axes.locator_params(axis="y", nbins=5)
    axes.grid(visible=False, axis="x")
    number_ticks(axes)
    _draw_days(axes, axis, most=max(3, int(pen.width_in / 1.5)))
    name_marks(axes, marks)
    return pen.svg(axes, f"{name} by run: {from_to([value for _, value in known])}")


def _draw_night(axes: Axes, night: DatedMetric, marks: dict[str, tuple[str, str]]) -> None:
    if night.value is None:
        axes.plot([night.at], [0.0], "x", color=BAD, markersize=6, transform=axes.get_xaxis_transform(), clip_on=False)
        marks["no model"] = (BAD, "x")
        return
    if night.champion is not None:
        axes.plot([night.at] * 2, [night.champion, night.value], color=THEN, linewidth=0.8, alpha=0.7)
        axes.plot([night.at], [night.champion], "_", color=THEN, markersize=9, markeredgewidth=2)
    fill = NOW if night.published else CARD
    axes.plot([night.at], [night.value], "o", color=NOW, markerfacecolor=fill, markersize=5.5)


def _draw_gaps(axes: Axes, axis: DatedAxis, marks: dict[str, tuple[str, str]]) -> None:
    usual = axis.usual
    for a, b in pairwise(axis.places):
        if usual is not None and b - a > _APART * usual:
            axes.axvspan(a + usual / 2, b - usual / 2, color=LINE, alpha=0.45, linewidth=0)
            marks["no run"] = (LINE, "s")


def _join(axes: Axes, axis: DatedAxis, known: Sequence[tuple[float, float]]) -> None:
    usual = axis.usual
    for (a, before), (b, after) in pairwise(known):
        if usual is not None and b - a <= _APART * usual:
            axes.plot([a, b], [before, after], color=NOW, linewidth=1.0, alpha=0.6)


def _draw_jumps(axes: Axes, nights: Sequence[DatedMetric], marks: dict[str, tuple[str, str]], room: float) -> None:
    """Marks jumps, and says how far they are where there is room: `room` of the axis for each."""
    found = jumps([night.value for night in nights])
    first, last = nights[0].at, nights[-1].at
    told_at = -math.inf
    for night, by in ((nights[n], by) for n, by in found.items()):
        value = 0.0 if night.value is None else night.value
        axes.plot([night.at], [value], "o", color=WARN, markerfacecolor="none", markersize=12, markeredgewidth=1.5)
        marks["a jump"] = (WARN, "O")
        if night.at - told_at < room * (last - first):
            continue
        told_at = night.at
        is_left = night.at < (first + last) / 2
        axes.annotate(
            words.signed(by),
            (night.at, value),
            (10 if is_left else -10, 0),
            textcoords="offset points",
            va="center",
            ha="left" if is_left else "right",
            color=INK,
        )


def _draw_days(axes: Axes, axis: DatedAxis, most: int) -> None:
    places = axis.places
    if axis.names:
        ticks = list(range(len(places) - 1, -1, -max(1, math.ceil(len(places) / most))))
        axes.set_xticks(ticks, [shortened(axis.names[n], 12) for n in ticks])
        return
    first, last = math.floor(places[0]), math.floor(places[-1])
    marked = min(most, last - first + 1)
    days = [round(first + (last - first) * n / max(marked - 1, 1)) for n in range(marked)]
    axes.set_xticks(days, [f"{dt.datetime.fromtimestamp(day * _DAY_S, dt.UTC):%Y-%m-%d}" for day in days])


def _day(text: str) -> float | None:
    try:
        return float(dt.date.fromisoformat(text).toordinal() - dt.date(1970, 1, 1).toordinal())
    except ValueError:
        return None
