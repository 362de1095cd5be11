"""The gate's decision, a pure function of what both models are on buckets of the same rows.

How far a difference may be chance, a paired bootstrap says (B. Efron, R. J. Tibshirani, *An Introduction to the
Bootstrap*, 1993, chapters 8 and 13): rows are drawn anew with replacement, the same for both models, and the interval
lies between percentiles of the differences. What is drawn are buckets into which the rows were put at random, in place
of rows: that gives the same intervals, as the mean over a bucket is one over independent rows, and takes a metric's
state of each bucket instead of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparktf.comparison import Comparison, Difference, Finding
from sparktf.keep import KeepRule
from sparktf.sequence import Draw, generator

BUCKETS = 200
"""Into so many the rows are put: an interval's width then is wrong by some 5 %."""

REPLICATES = 2000
"""So often they are drawn."""

Floats = npt.NDArray[np.float64]


class Asked(Protocol):
    """What is asked of one metric: see `GatedMetric`."""

    @property
    def min(self) -> float | None: ...
    @property
    def max(self) -> float | None: ...
    @property
    def tolerance(self) -> float | None: ...


class GateSettings(Protocol):
    """What the decision depends on: see `GateConfig`."""

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
    """A metric, what is asked of it, and whether it should be small or large."""

    rule: KeepRule
    asked: Asked


class Measured(NamedTuple):
    """What one metric is on all rows, or on a slice.

    Attributes:
        slice: "" for all rows.
        challenger: Its value.
        champion: None where there is none.
        differences: Challenger - champion in each resample, the same rows for both; None where nothing is compared.
    """

    metric: str
    slice: str
    rows: int
    challenger: float
    champion: float | None = None
    differences: Floats | None = None


class Opponent(NamedTuple):
    """The champion: see `Comparison`."""

    label: str = ""
    version: int | None = None
    problem: str = ""


def draws(buckets: int, seed: int, replicates: int = REPLICATES) -> Floats:
    """Returns how often each bucket is drawn in each resample: [replicates, buckets]."""
    draw = generator(Draw.RESAMPLES, seed)
    return draw.multinomial(buckets, np.full(buckets, 1.0 / buckets), replicates).astype(np.float64)


def interval(differences: Floats, confidence: float) -> tuple[float, float]:
    """Returns the ends of the percentile interval; infinite ones where no difference is a number."""
    numbers = differences[np.isfinite(differences)]
    if not len(numbers):
        return -math.inf, math.inf
    low, high = np.quantile(numbers, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def found(low: float, high: float, tolerance: float) -> Finding:
    """Returns what an interval says, whose upper end is the better one."""
    if low > -tolerance:
        return "good"
    return "worse" if high < -tolerance else "undecided"


def rows_needed(rows: int, difference: float, low: float, high: float, tolerance: float) -> int | None:
    """Returns how many rows would have decided it, as an interval's width shrinks with their root; None for no number.

    Args:
        difference: What was seen, between the ends.
    """
    room = difference + tolerance
    half = difference - low if room > 0 else high - difference
    if not room or not math.isfinite(half / room):
        return None
    return math.ceil(rows * max(1.0, (half / room) ** 2)) + 1


def judge(
    measured: Sequence[Measured], questions: Mapping[str, Question], settings: GateSettings, opponent: Opponent
) -> Comparison:
    """Returns the outcome.

    Args:
        measured: Each metric of `questions` on all rows, and on slices.
    """
    slices = {m.slice for m in measured if m.slice and m.rows >= settings.min_rows}
    # All slices together are to be called worse by chance no oftener than one metric on all rows.
    apart = 1 - (1 - settings.confidence) / max(1, len(slices))
    differences = tuple(
        _difference(m, questions[m.metric], settings.min_rows, apart if m.slice else settings.confidence)
        for m in measured
    )
    promote, reason = _decide(differences, settings, opponent)
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
    )


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


def _found(measured: Measured, low: float, high: float, tolerance: float) -> Finding:
    if math.isnan(measured.challenger):
        return "worse"
    if measured.champion is not None and math.isnan(measured.champion):
        return "good"
    return found(low, high, tolerance)


def _is_out_of_bounds(value: float, asked: Asked) -> bool:
    """Whether a value is not within its bounds; what is not a number is in none."""
    is_within = (asked.min is None or value >= asked.min) and (asked.max is None or value <= asked.max)
    return not is_within


def _decide(differences: Sequence[Difference], settings: GateSettings, opponent: Opponent) -> tuple[bool, str]:
    for finding in ("out of bounds", "worse"):
        failed = [d for d in differences if d.finding == finding]
        if failed:
            return False, "; ".join(_in_words(d, opponent) for d in failed[:3]) + _more(failed)
    if opponent.problem:
        said = f"{opponent.label} cannot be compared with: {opponent.problem}; gate.champion_lost: "
        return settings.champion_lost == "promote", said + settings.champion_lost
    open_ones = [d for d in differences if d.finding == "undecided" and not d.slice]
    if open_ones:
        said = "; ".join(_in_words(d, opponent) for d in open_ones) + f"; gate.undecided: {settings.undecided}"
        return settings.undecided == "promote", said
    if not opponent.label:
        return True, "nothing is published to compare with, and the model is within its bounds"
    return True, f"good enough beside {opponent.label}: " + ", ".join(
        f"{d.metric} {_figure(d.challenger)} against {_figure(d.champion)}"
        for d in differences
        if d.finding == "good" and not d.slice and d.champion is not None
    )


def _more(failed: Sequence[Difference]) -> str:
    return f"; and {len(failed) - 3} more" if len(failed) > 3 else ""


def _in_words(d: Difference, opponent: Opponent) -> str:
    name = f"{d.metric} on {d.slice}" if d.slice else d.metric
    if d.finding == "out of bounds":
        bounds = [f"{key}: {_figure(b)}" for key, b in (("min", d.least), ("max", d.most)) if b is not None]
        return f"{name} {_figure(d.challenger)} is not within gate.metrics.{d.metric}: {', '.join(bounds)}"
    said = (
        f"{name} is {d.finding}: {_figure(d.challenger)} against {_figure(d.champion)} of {opponent.label}, better by "
        f"{_figure(d.low)} to {_figure(d.high)}, tolerance {_figure(d.tolerance)}"
    )
    if d.finding != "undecided":
        return said
    needed = "no number of rows" if d.rows_needed is None else f"some {d.rows_needed:,} rows"
    return f"{said}; {needed} like these would decide it, and there are {d.rows:,}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
