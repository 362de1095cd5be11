"""The charts of a run's page, each from stored data; None if there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparktf.nightly.report.drawing import BAD, CARD, GOOD, INK, LINE, MUTED, NOW, SERIES, THEN, WARN, Pen, figure_of
from sparktf.nightly.report.drift import ColumnShape
from sparktf.nightly.report.stored import SeenAttempt
from sparktf.results.comparison import TOLERATED, Difference
from sparktf.results.events import MetricsSeen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 12
"""The most bars of a chart."""

_OF_FINDING = {"good": GOOD, TOLERATED: WARN, "worse": BAD, "undecided": WARN, "out of bounds": BAD}

_BAR_IN, _AXIS_IN = 0.3, 0.72


class AttemptBar(NamedTuple):
    """An attempt on the time line, in seconds since the run began."""

    label: str
    begin_s: float
    end_s: float
    tone: str


class MarkedBar(NamedTuple):
    """A bar of a node or host, with a marked part."""

    label: str
    part: float
    whole: float


def losses(pen: Pen, attempts: Sequence[SeenAttempt], metrics: Sequence[MetricsSeen]) -> str | None:
    """Draws the loss by update, as reported by heartbeats, and the validation loss."""
    lines = [_finite(a.samples.steps, a.samples.losses) for a in attempts]
    validation = _finite(*_series(metrics, "validation", "loss"))
    train = _finite(*_series(metrics, "train", "loss"))
    if not any(steps for steps, _ in lines) and not validation[0] and not train[0]:
        return None
    axes = pen.axes()
    for steps, values in lines:
        axes.plot(steps, values, color=NOW, linewidth=1.4, marker="." if len(steps) < 2 else None)
    if not any(steps for steps, _ in lines):
        axes.plot(*train, color=NOW, marker=".")
    if validation[0]:
        axes.plot(*validation, color=THEN, marker="o", markersize=4, linewidth=1.2)
    _name_lines(axes, {"training": NOW, **({"validation": THEN} if validation[0] else {})})
    _by_update(axes)
    return pen.svg(axes, f"Loss by update: {_from_to(validation[1] or [v for _, line in lines for v in line])}")


def metric(pen: Pen, name: str, metrics: Sequence[MetricsSeen]) -> str | None:
    """Draws one metric of both streams by update, if it was reported more than once."""
    streams = {stream: _finite(*_series(metrics, stream, name)) for stream in ("train", "validation")}
    streams = {stream: series for stream, series in streams.items() if series[0]}
    if all(len(steps) < 2 for steps, _ in streams.values()):
        return None
    axes = pen.axes(2.2)
    colours = {"train": NOW, "validation": THEN}
    for stream, series in streams.items():
        axes.plot(*series, color=colours[stream], marker="o", markersize=4, linewidth=1.2)
    _name_lines(axes, {"training" if stream == "train" else stream: colours[stream] for stream in streams})
    _by_update(axes)
    return pen.svg(axes, f"{name} by update, {list(streams)[-1]}: {_from_to(list(streams.values())[-1][1])}")


def intervals(pen: Pen, name: str, differences: Sequence[Difference]) -> str | None:
    """Draws the challenger's advantage in one metric, on all rows and on slices, with intervals."""
    known = [d for d in differences if d.low is not None and d.high is not None][:_ROWS]
    if not known:
        return None
    axes = pen.axes(_AXIS_IN + _BAR_IN * len(known))
    places = range(len(known), 0, -1)
    for place, d in zip(places, known, strict=True):
        low, high = float(d.low or 0.0), float(d.high or 0.0)
        colour = _OF_FINDING.get(d.finding, MUTED)
        axes.plot([low, high], [place, place], color=colour, linewidth=2.4, solid_capstyle="round")
        axes.plot([(low + high) / 2], [place], color=colour, marker="o", markersize=6)
    tolerance = next((d.tolerance for d in known if d.tolerance is not None), None)
    axes.axvline(0.0, color=MUTED, linewidth=1.0)
    if tolerance:
        axes.axvline(-tolerance, color=BAD, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.set_yticks(list(places), [_short(d.slice or "all rows") for d in known])
    axes.set_ylim(0.4, len(known) + 0.6)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel("worse  ←  challenger  →  better")
    return pen.svg(axes, f"{name}: by how much the challenger is better than the champion, with intervals")


def throughput(pen: Pen, attempts: Sequence[SeenAttempt]) -> str | None:
    """Draws the rows a second of each node over the time of the run."""
    begin_s = min((a.began_s for a in attempts if a.samples.seconds), default=0.0)
    nodes = list(dict.fromkeys(node for a in attempts for node in a.samples.rows))
    drawn = [
        (n, a.began_s - begin_s, rates(a, node))
        for n, node in enumerate(nodes)
        for a in attempts
        if node in a.samples.rows
    ]
    if not any(values for _, _, (_, values) in drawn):
        return None
    axes = pen.axes()
    unit_s, unit = _unit(max(offset + (times[-1] if times else 0.0) for _, offset, (times, _) in drawn))
    many = len(nodes) > len(SERIES)
    for n, offset, (times, values) in drawn:
        if values:
            steps = [(offset + at_s) / unit_s for at_s in times]
            colour = MUTED if many else SERIES[n]
            axes.stairs(
                values, steps, baseline=None, color=colour, linewidth=0.7 if many else 1.5, alpha=0.6 if many else 1
            )
    if not many:
        _name_lines(axes, {node: SERIES[n] for n, node in enumerate(nodes)})
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_thousands)
    axes.set_xlabel(f"{unit} since the first attempt began")
    what = f"{len(nodes)} nodes" if many else ", ".join(nodes)
    return pen.svg(axes, f"Rows a second over time of {what}")


def rates(attempt: SeenAttempt, node: str) -> tuple[list[float], list[float]]:
    """Returns times at which a node had advanced, in seconds, and its rows a second between these.

    There is one more time than rates. If heartbeats are rarer than samples, a node stands still between two of them:
    only samples in which it has advanced count.
    """
    times, counts = attempt.samples.seconds, attempt.samples.rows[node]
    moved = [0, *(i for i in range(1, len(counts)) if counts[i] > counts[i - 1])]
    values = [(counts[j] - counts[i]) / (times[j] - times[i]) for i, j in pairwise(moved)]
    return [times[i] for i in moved] if values else [], values


def shares(pen: Pen, parts: Sequence[MarkedBar], unit: str, named: tuple[str, str], label: str) -> str | None:
    """Draws bars with a marked part; `named` are the names of the part and of the rest."""
    known = [share for share in parts if share.whole > 0][:_ROWS]
    if not known:
        return None
    axes = pen.axes(_AXIS_IN + 0.2 + _BAR_IN * len(known))
    places = np.arange(len(known), 0, -1)
    part, rest = np.array([s.part for s in known]), np.array([s.whole - s.part for s in known])
    axes.barh(places, part, height=0.62, color=NOW)
    axes.barh(places, rest, left=part, height=0.62, color=LINE)
    for place, share in zip(places, known, strict=True):
        _write(axes, share.whole, float(place), f"{share.part / share.whole:.0%}")
    axes.set_xlim(0, max(s.whole for s in known) * 1.14)
    axes.set_yticks(places, [_short(s.label) for s in known])
    axes.locator_params(axis="x", nbins=4)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(_thousands)
    axes.set_xlabel(unit)
    _name_lines(axes, {named[0]: NOW, named[1]: LINE})
    return pen.svg(axes, label)


def phases(pen: Pen, seconds: Mapping[str, float]) -> str | None:
    """Draws the time of each phase."""
    known = [(phase, spent_s) for phase, spent_s in seconds.items() if spent_s > 0]
    if not known:
        return None
    axes = pen.axes(_AXIS_IN + _BAR_IN * len(known))
    unit_s, unit = _unit(max(spent_s for _, spent_s in known))
    places = np.arange(len(known), 0, -1)
    axes.barh(places, [spent_s / unit_s for _, spent_s in known], height=0.62, color=NOW)
    for place, (_, spent_s) in zip(places, known, strict=True):
        _write(axes, spent_s / unit_s, float(place), length(spent_s))
    axes.set_xlim(0, max(spent_s for _, spent_s in known) / unit_s * 1.22)
    axes.set_yticks(places, [phase for phase, _ in known])
    axes.locator_params(axis="x", nbins=5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(unit)
    told = ", ".join(f"{phase} {length(spent_s)}" for phase, spent_s in known)
    return pen.svg(axes, f"Time by phase: {told}")


def timeline(pen: Pen, spans: Sequence[AttemptBar]) -> str | None:
    """Draws each attempt over time, and its end."""
    known = spans[-_ROWS:]
    if not known:
        return None
    colours = {"good": GOOD, "bad": BAD, "plain": NOW, "waits": WARN}
    axes = pen.axes(_AXIS_IN + _BAR_IN * len(known))
    unit_s, unit = _unit(max(span.end_s for span in known))
    places = range(len(known), 0, -1)
    for place, span in zip(places, known, strict=True):
        width = max(span.end_s - span.begin_s, max(s.end_s for s in known) / 200) / unit_s
        axes.barh(place, width, left=span.begin_s / unit_s, height=0.62, color=colours[span.tone])
    axes.set_yticks(list(places), [span.label for span in known])
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(f"{unit} since the run began")
    return pen.svg(axes, "Time line of the attempts; the table beside it says how each ended")


class ColumnPen:
    """Draws many small charts of columns on the same axes."""

    def __init__(self, pen: Pen) -> None:
        self._pen = pen
        self._axes = pen.axes(0.62)
        figure = figure_of(self._axes)
        figure.set_layout_engine("none")
        figure.set_size_inches(2.6, 0.62)
        self._axes.set_position((0.0, 0.02, 1.0, 0.96))
        self._axes.set_axis_off()

    def draw(self, shape: ColumnShape, label: str) -> str:
        """Draws one: today filled, the baseline as a line or as bars beside."""
        axes = self._axes
        for artist in [*axes.patches, *axes.lines, *axes.collections]:
            artist.remove()
        n = len(shape.now)
        most = max(float(shape.now.max()), 0.0 if shape.then is None else float(shape.then.max()), 1e-12)
        axes.set_xlim(0, n)
        axes.set_ylim(0, most * 1.04)
        if shape.are_values:
            _bars(axes, shape)
        else:
            axes.stairs(shape.now, np.arange(n + 1), fill=True, color=NOW, alpha=0.45, linewidth=0)
            if shape.then is not None:
                axes.stairs(shape.then, np.arange(n + 1), baseline=None, color=THEN, linewidth=1.4)
        axes.plot([0, n], [0, 0], color=LINE, linewidth=1.2)
        return self._pen.svg(axes, label)


class DatedMetric(NamedTuple):
    """A metric in one run."""

    day: str
    value: float | None
    champion: float | None  # The published model's value on the same rows
    published: bool  # Whether the run published its model


def by_date(pen: Pen, name: str, nights: Sequence[DatedMetric]) -> str | None:
    """Draws a metric of all runs of a name, the earliest first: filled where the model was published.

    Beside each point is the champion's on the same rows, because the rows differ from night to night.
    """
    known = [(n, night.value) for n, night in enumerate(nights) if night.value is not None]
    if not known:
        return None
    axes = pen.axes(2.2)
    beside = [(n, night.champion) for n, night in enumerate(nights) if night.champion is not None]
    axes.plot([n for n, _ in beside], [value for _, value in beside], "_", color=THEN, markersize=9, markeredgewidth=2)
    axes.plot([n for n, _ in known], [value for _, value in known], color=NOW, linewidth=1.0, alpha=0.6)
    for is_published in (False, True):
        points = [(n, value) for n, value in known if nights[n].published is is_published]
        fill = NOW if is_published else CARD
        axes.plot([n for n, _ in points], [v for _, v in points], "o", color=NOW, markerfacecolor=fill, markersize=5)
    if beside:
        _name_lines(axes, {"this run's model": NOW, "the champion": THEN})
    every = max(1, math.ceil(len(nights) / 4))
    ticks = range(len(nights) - 1, -1, -every)
    axes.set_xticks([*ticks], [_short(nights[n].day, 12) for n in ticks])
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(nights) - 0.5)
    return pen.svg(axes, f"{name} by run: {_from_to([value for _, value in known])}")


def length(seconds: float) -> str:
    """Returns a duration for people."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bars(axes: Axes, shape: ColumnShape) -> None:
    places = np.arange(len(shape.now)) + 0.5
    if shape.then is None:
        axes.bar(places, shape.now, width=0.6, color=NOW)
        return
    axes.bar(places - 0.18, shape.now, width=0.34, color=NOW)
    axes.bar(places + 0.18, shape.then, width=0.34, color=THEN)


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    """Writes beside the end of a bar."""
    axes.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", color=INK, fontsize=10)


def _series(metrics: Sequence[MetricsSeen], stream: str, name: str) -> tuple[list[int], list[float]]:
    """Returns steps and values of a metric, the last value of each step."""
    found = {seen.step: seen.values[name] for seen in metrics if seen.stream == stream and name in seen.values}
    steps = sorted(found)
    return steps, [found[step] for step in steps]


def _finite(steps: Sequence[int], values: Sequence[float | None]) -> tuple[list[int], list[float]]:
    known = [(s, v) for s, v in zip(steps, values, strict=True) if v is not None and math.isfinite(v)]
    return [s for s, _ in known], [v for _, v in known]


def _name_lines(axes: Axes, colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - see drawing.py

    handles = [Line2D([], [], color=colour, linewidth=3, label=_short(name)) for name, colour in colours.items()]
    columns = min(len(handles), 4)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, columnspacing=1.2)


def _by_update(axes: Axes) -> None:
    axes.set_xlabel("update")
    axes.locator_params(axis="x", nbins=6, integer=True)
    axes.locator_params(axis="y", nbins=5)
    axes.xaxis.set_major_formatter(_thousands)


def _thousands(value: float, position: object = None) -> str:
    del position
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def _unit(seconds: float) -> tuple[float, str]:
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 10_800 else (3600.0, "hours")


def _from_to(values: Sequence[float]) -> str:
    return f"from {values[0]:.4g} to {values[-1]:.4g}" if values else "no values"


def _short(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
