"""The charts of a run's page, each from stored data; None if there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparktf.nightly.report import words
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

_BAR_IN, _AXIS_IN = 0.32, 0.78

_LETTER, _HANDLE, _BESIDE = 6.6, 5, 6
"""Of a legend: the width of a letter in units; letters that a mark takes, and the labels beside the axes."""

_COURSE = 8
"""Fewer samples are no course beside the means of epochs."""


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
    """Draws the loss of epochs as points, beside a thin line of what heartbeats have told of single updates.

    A sample is the loss of a few updates, and the last one often of a rest of rows: alone it may rise where training
    has not. The mean of an epoch's updates stands in the middle of them.
    """
    epochs = {stream: _finite(*_series(metrics, stream, "loss")) for stream in ("train", "validation")}
    epochs["train"] = _centred(epochs["train"])
    lines = [_finite(a.samples.steps, a.samples.losses) for a in attempts]
    lines = [line for line in lines if len(line[0]) >= (_COURSE if epochs["train"][0] else 1)]
    if not lines and not any(steps for steps, _ in epochs.values()):
        return None
    axes = pen.axes()
    for steps, values in lines:
        axes.plot(steps, values, color=NOW, linewidth=0.8, alpha=0.55, marker="." if len(steps) < _COURSE else None)
    names = {"training": (NOW, "-")} if lines else {}
    for stream, name, colour in (("train", "epoch means", NOW), ("validation", "validation", THEN)):
        if epochs[stream][0]:
            axes.plot(*epochs[stream], "o", color=colour, markersize=6, markeredgecolor=CARD, markeredgewidth=0.8)
            names[name] = (colour, "o")
    name_marks(axes, names)
    _by_update(axes)
    told = epochs["validation"][1] or epochs["train"][1] or [v for _, line in lines for v in line]
    return pen.svg(axes, f"Loss by update: {from_to(told)}")


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
    return pen.svg(axes, f"{name} by update, {list(streams)[-1]}: {from_to(list(streams.values())[-1][1])}")


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
    axes.set_yticks(list(places), [shortened(d.slice or "all rows") for d in known])
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
    number_ticks(axes)
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
        _write(axes, share.whole, float(place), words.percent(share.part / share.whole))
    axes.set_xlim(0, max(s.whole for s in known) * 1.14)
    axes.set_yticks(places, [shortened(s.label) for s in known])
    axes.locator_params(axis="x", nbins=4)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(unit)
    number_ticks(axes)
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
        _write(axes, spent_s / unit_s, float(place), words.length(spent_s))
    axes.set_xlim(0, max(spent_s for _, spent_s in known) / unit_s * 1.22)
    axes.set_yticks(places, [phase for phase, _ in known])
    axes.locator_params(axis="x", nbins=5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(unit)
    told = ", ".join(f"{phase} {words.length(spent_s)}" for phase, spent_s in known)
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
    """Draws the distributions of many columns on the same axes."""

    def __init__(self, pen: Pen) -> None:
        self._pen = pen
        self._axes = pen.axes(0.62)
        figure = figure_of(self._axes)
        figure.set_layout_engine("none")
        figure.set_size_inches(2.6, 0.62)
        self._axes.set_position((0.0, 0.02, 1.0, 0.96))
        self._axes.set_axis_off()

    def draw(self, shape: ColumnShape, label: str) -> str:
        """Draws one: today filled, the baseline as a line."""
        axes = self._axes
        for artist in [*axes.patches, *axes.lines, *axes.collections]:
            artist.remove()
        n = len(shape.now)
        most = max(float(shape.now.max()), 0.0 if shape.then is None else float(shape.then.max()), 1e-12)
        axes.set_xlim(0, n)
        axes.set_ylim(0, most * 1.04)
        axes.stairs(shape.now, np.arange(n + 1), fill=True, color=NOW, alpha=0.45, linewidth=0)
        if shape.then is not None:
            axes.stairs(shape.then, np.arange(n + 1), baseline=None, color=THEN, linewidth=1.4)
        axes.plot([0, n], [0, 0], color=LINE, linewidth=1.2)
        return self._pen.svg(axes, label, stretches=True)


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    """Writes beside the end of a bar."""
    axes.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", color=INK, fontsize=12)


def _series(metrics: Sequence[MetricsSeen], stream: str, name: str) -> tuple[list[int], list[float]]:
    """Returns steps and values of a metric, the last value of each step."""
    found = {seen.step: seen.values[name] for seen in metrics if seen.stream == stream and name in seen.values}
    steps = sorted(found)
    return steps, [found[step] for step in steps]


def _centred(series: tuple[list[int], list[float]]) -> tuple[list[int], list[float]]:
    steps, values = series
    return [(before + step) // 2 for before, step in pairwise([0, *steps])], values


def _finite(steps: Sequence[int], values: Sequence[float | None]) -> tuple[list[int], list[float]]:
    known = [(s, v) for s, v in zip(steps, values, strict=True) if v is not None and math.isfinite(v)]
    return [s for s, _ in known], [v for _, v in known]


def _name_lines(axes: Axes, colours: Mapping[str, str]) -> None:
    name_marks(axes, {name: (colour, "-") for name, colour in colours.items()})


def name_marks(axes: Axes, marks: Mapping[str, tuple[str, str]]) -> None:
    """Names colours and marks above the axes, in as few rows as they need: "-" is a line, "O" a ring."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - see drawing.py

    names = [shortened(name) for name in marks]
    handles = [
        Line2D(
            [],
            [],
            color=colour,
            linewidth=3 if mark == "-" else 0,
            marker=None if mark == "-" else mark.lower(),
            markerfacecolor="none" if mark == "O" else None,
            markersize=9 if mark in "O_" else 6,
            markeredgewidth=1.8 if mark in "O_x" else 0,
            label=name,
        )
        for name, (colour, mark) in zip(names, marks.values(), strict=True)
    ]
    letters = figure_of(axes).get_size_inches()[0] * 72 / _LETTER - _BESIDE
    one_row = sum(len(name) + _HANDLE for name in names) <= letters
    columns = len(names) if one_row else int(letters / (max(map(len, names), default=0) + _HANDLE))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=max(1, columns), columnspacing=1.2)


def number_ticks(axes: Axes) -> None:
    """Writes large numbers on both axes as everywhere; others have equal digits by themselves. The last thing to do."""
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if max(abs(low), abs(high)) >= 1e3:
            axis.set_major_formatter(words.tick)


def _by_update(axes: Axes) -> None:
    axes.set_xlabel("update")
    axes.locator_params(axis="x", nbins=6, integer=True)
    axes.locator_params(axis="y", nbins=5)
    number_ticks(axes)


def _unit(seconds: float) -> tuple[float, str]:
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 10_800 else (3600.0, "hours")


def from_to(values: Sequence[float]) -> str:
    return f"from {words.number(values[0])} to {words.number(values[-1])}" if values else "no values"


def shortened(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
