"""The gate's decision, a pure function of both models' metrics on buckets of the same rows.

A paired bootstrap estimates how large a difference can be by chance (B. Efron, R. J. Tibshirani, *An Introduction to
the Bootstrap*, 1993, chapters 8 and 13): rows are resampled with replacement, the same ones for both models, and the
interval lies between percentiles of the differences. Buckets of randomly chosen rows are resampled in place of rows.
The intervals are the same, since the mean over a bucket is a mean over independent rows, and only a metric's state of
each bucket is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparktf.results.comparison import TOLERATED, Anchored, Comparison, Difference, Judgement
from sparktf.results.keep import KeepRule
from sparktf.sequence import Draw, generator

BUCKETS = 200
"""Number of buckets of rows: interval widths are then wrong by some 5 %."""

REPLICATES = 2000
"""Number of resamples."""

Floats = npt.NDArray[np.float64]


class Asked(Protocol):
    """The conditions on one metric: see `GatedMetric`."""

    @property
    def min(self) -> float | None: ...
    @property
    def max(self) -> float | None: ...
    @property
    def tolerance(self) -> float | None: ...


class GateSettings(Protocol):
    """The settings of the decision: see `GateConfig`."""

    @property
    def min_rows(self) -> int: ...
    @property
    def undecided(self) -> Literal["promote", "keep"]: ...
    @property
    def champion_lost(self) -> Literal["promote", "keep"]: ...
    @property
    def confidence(self) -> float: ...
    @property
    def seed(self) -> int: ...


class Question(NamedTuple):
    """A metric, the conditions on it, and whether less is better."""

    rule: KeepRule
    asked: Asked


class Measured(NamedTuple):
    """One metric on all rows, or on a slice."""

    metric: str
    slice: str  # "" for all rows
    rows: int
    challenger: float  # Its value
    champion: float | None = None  # None without a champion
    # Challenger - champion in each resample, the same rows for both; None where nothing is compared
    differences: Floats | None = None


class Opponent(NamedTuple):
    """The champion, or the anchor: see `Comparison`."""

    label: str = ""
    version: int | None = None
    problem: str = ""


class Beside(NamedTuple):
    """The anchor and the metrics compared with it: `Measured.champion` is its value."""

    opponent: Opponent
    measured: Sequence[Measured] = ()


class Levelled(NamedTuple):
    """A published version and its levels: see `levels_after`."""

    number: int
    levels: Mapping[str, float]


def levels_after(champion: Mapping[str, float], comparison: Comparison) -> dict[str, float]:
    """Returns the levels of a challenger by metric: its quality on one scale with all versions before it.

    The values of two nights are measured on different rows and hardly comparable; the difference between two models on
    the same rows is. So a version's level is its champion's level (in `champion`, else its value) plus the difference;
    the first version's level is its value.
    """
    return {
        d.metric: d.challenger
        if d.champion is None or math.isnan(d.champion)
        else champion.get(d.metric, d.champion) + d.challenger - d.champion
        for d in comparison.differences
        if not d.slice and math.isfinite(d.challenger)
    }


def best_version(versions: Sequence[Levelled], rule: KeepRule) -> int | None:
    """Returns the number of the version with the best level, the last of equal ones; None if none is known."""
    sign = -1.0 if rule.mode == "min" else 1.0
    known = [(sign * v.levels[rule.metric], v.number) for v in versions if rule.metric in v.levels]
    return max(known)[1] if known else None


def draws(buckets: int, seed: int, replicates: int = REPLICATES) -> Floats:
    """Returns how often each bucket is drawn in each resample: [replicates, buckets]."""
    draw = generator(Draw.RESAMPLES, seed)
    return draw.multinomial(buckets, np.full(buckets, 1.0 / buckets), replicates).astype(np.float64)


def interval(differences: Floats, confidence: float) -> tuple[float, float]:
    """Returns the ends of the percentile interval; infinite ones if no difference is a number."""
    numbers = differences[np.isfinite(differences)]
    if not len(numbers):
        return -math.inf, math.inf
    low, high = np.quantile(numbers, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def found(low: float, high: float, tolerance: float) -> Judgement:
    """Returns the finding of an interval whose upper end is the better one."""
    if low > -tolerance:
        return TOLERATED if high < 0 else "good"
    return "worse" if high < -tolerance else "undecided"


def rows_needed(rows: int, difference: float, low: float, high: float, tolerance: float) -> int | None:
    """Returns the rows that would decide it, None for no number: an interval shrinks with the root of the rows.

    `difference` is the observed one, between the ends.
    """
    room = difference + tolerance
    half = difference - low if room > 0 else high - difference
    if not room or not math.isfinite(half / room):
        return None
    return math.ceil(rows * max(1.0, (half / room) ** 2)) + 1


def judge(
    measured: Sequence[Measured],
    questions: Mapping[str, Question],
    settings: GateSettings,
    opponent: Opponent,
    anchor: Beside | None = None,
) -> Comparison:
    """Returns the outcome.

    Args:
        measured: Each metric of `questions` on all rows, and on slices.
        anchor: Each metric on all rows compared with the anchor; None without one.
    """
    slices = {m.slice for m in measured if m.slice and m.rows >= settings.min_rows}
    # The probability that chance makes any slice look worse is to be that of one metric on all rows.
    apart = 1 - (1 - settings.confidence) / max(1, len(slices))
    differences = tuple(
        _difference(m, questions[m.metric], settings.min_rows, apart if m.slice else settings.confidence)
        for m in measured
    )
    anchored = None if anchor is None else _anchored(anchor, questions, settings)
    promote, reason = _decide(differences, settings, opponent, anchored)
    return Comparison(
        promote=promote,
        reason=reason,
        champion=opponent.label,
        champion_version=opponent.version,
        champion_problem=opponent.problem,
        confidence=settings.confidence,
        replicates=REPLICATES,
        seed=settings.seed,
        differences=differences,
        anchor=anchored,
    )


def _anchored(anchor: Beside, questions: Mapping[str, Question], settings: GateSettings) -> Anchored:
    """Returns the comparison with the anchor. Bounds of the challenger are left out: `judge` checks them once."""
    compared = (m for m in anchor.measured if questions[m.metric].asked.tolerance is not None)
    found = (
        _difference(m, Question(q.rule, _Unbounded(q.asked.tolerance)), settings.min_rows, settings.confidence)
        for m in compared
        for q in (questions[m.metric],)
    )
    label, version, problem = anchor.opponent
    return Anchored(label=label, version=version or 0, problem=problem, differences=tuple(found))


class _Unbounded(NamedTuple):
    tolerance: float | None
    min: float | None = None
    max: float | None = None


def _difference(measured: Measured, question: Question, min_rows: int, confidence: float) -> Difference:
    asked, is_slice = question.asked, bool(measured.slice)
    shown: dict[str, Any] = {
        "metric": measured.metric,
        "slice": measured.slice,
        "rows": measured.rows,
        "challenger": measured.challenger,
        "champion": measured.champion,
        "tolerance": asked.tolerance,
        "least": None if is_slice else asked.min,
        "most": None if is_slice else asked.max,
    }
    if is_slice and measured.rows < min_rows:
        return Difference(**shown, finding="too few rows")
    if not is_slice and _is_out_of_bounds(measured.challenger, asked):
        shown["finding"] = "out of bounds"
    if measured.differences is None or measured.champion is None:
        in_bounds = not is_slice and (asked.min is not None or asked.max is not None)
        return Difference(**{"finding": "good" if in_bounds else "not compared"} | shown)
    sign = -1.0 if question.rule.mode == "min" else 1.0
    seen = sign * (measured.challenger - measured.champion)
    low, high = interval(sign * measured.differences, confidence)
    shown |= {"low": low, "high": high}
    if asked.tolerance is None:
        return Difference(**{"finding": "not compared"} | shown)
    finding = _found(measured, low, high, asked.tolerance)
    if finding == "undecided" and "finding" not in shown:
        shown["rows_needed"] = rows_needed(measured.rows, seen, low, high, asked.tolerance)
    return Difference(**{"finding": finding} | shown)


def _found(measured: Measured, low: float, high: float, tolerance: float) -> Judgement:
    if math.isnan(measured.challenger):
        return "worse"
    if measured.champion is not None and math.isnan(measured.champion):
        return "good"
    return found(low, high, tolerance)


def _is_out_of_bounds(value: float, asked: Asked) -> bool:
    """Whether a value is outside its bounds; NaN always is."""
    is_within = (asked.min is None or value >= asked.min) and (asked.max is None or value <= asked.max)
    return not is_within


def _decide(
    differences: Sequence[Difference], settings: GateSettings, opponent: Opponent, anchor: Anchored | None
) -> tuple[bool, str]:
    found = [(d, opponent.label) for d in differences]
    if anchor is not None:
        found += [(d, anchor.label) for d in anchor.differences]
    for finding in ("out of bounds", "worse"):
        failed = [_in_words(d, label) for d, label in found if d.finding == finding]
        if failed:
            return False, "; ".join(failed[:3]) + (f"; and {len(failed) - 3} more" if len(failed) > 3 else "")
    if opponent.problem:
        said = f"{opponent.label} cannot be compared with: {opponent.problem}; gate.champion_lost: "
        return settings.champion_lost == "promote", said + settings.champion_lost
    open_ones = [_in_words(d, label) for d, label in found if d.finding == "undecided" and not d.slice]
    if open_ones:
        return settings.undecided == "promote", f"{'; '.join(open_ones)}; gate.undecided: {settings.undecided}"
    if not opponent.label:
        return True, "nothing is published to compare with, and the model is within its bounds"
    said = _good_enough(differences, opponent.label)
    if anchor is not None and not anchor.problem:
        said += "; " + _good_enough(anchor.differences, anchor.label)
    return True, said


def _good_enough(differences: Sequence[Difference], label: str) -> str:
    shown = [d for d in differences if d.finding in ("good", TOLERATED) and not d.slice and d.champion is not None]
    tolerated = [d for d in shown if d.finding == TOLERATED]
    said = f"worse than {label}, within the tolerance" if tolerated else f"good enough beside {label}"
    return f"{said}: " + ", ".join(
        f"{d.metric} {_figure(d.challenger)} against {_figure(d.champion)}" for d in tolerated or shown
    )


def _in_words(d: Difference, label: str) -> str:
    name = f"{d.metric} on {d.slice}" if d.slice else d.metric
    if d.finding == "out of bounds":
        bounds = [f"{key}: {_figure(b)}" for key, b in (("min", d.least), ("max", d.most)) if b is not None]
        return f"{name} {_figure(d.challenger)} is not within gate.metrics.{d.metric}: {', '.join(bounds)}"
    said = (
        f"{name} is {d.finding}: {_figure(d.challenger)} against {_figure(d.champion)} of {label}, better by "
        f"{_figure(d.low)} to {_figure(d.high)}, tolerance {_figure(d.tolerance)}"
    )
    if d.finding != "undecided":
        return said
    needed = "no number of rows" if d.rows_needed is None else f"some {d.rows_needed:,} rows"
    return f"{said}; {needed} like these would decide it, and there are {d.rows:,}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
