"""The gate's outcome: a run's model (the challenger) against the published one (the champion), on the same rows."""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message

Judgement = Literal[
    "good", "worse, within the tolerance", "worse", "undecided", "out of bounds", "too few rows", "not compared"
]
"""The finding on one metric, on all rows or a slice; "too few rows" and "not compared" decide nothing."""

TOLERATED: Judgement = "worse, within the tolerance"
"""Significantly worse than the opponent, but within the tolerance: it passes, but is not called good."""


class Difference(Message):
    """One metric of both models, on all rows or on a slice of them."""

    metric: str
    slice: str = ""  # "" for all rows, else "country=de"
    rows: int
    challenger: float
    champion: float | None = None  # None without a champion, or if it could not be evaluated
    # Lower end of the paired bootstrap interval of challenger - champion, with the sign turned where less is better:
    # above 0 the challenger is better. `high` likewise; both None where nothing was compared.
    low: float | None = None
    high: float | None = None
    tolerance: float | None = None  # By how much the challenger may be worse; None without such a condition
    least: float | None = None  # Lower bound of the challenger's value; `most` is the upper one
    most: float | None = None
    finding: Judgement
    rows_needed: int | None = None  # How many rows like these would have decided an undecided difference


class Anchored(Message):
    """The challenger against the anchor: the best of the last published versions, if that is not the champion."""

    label: str  # Its name in messages: "version 9, the best of the last 7"
    version: int  # Its published version
    problem: str = ""  # Why it could not be evaluated; "" if it could
    differences: tuple[Difference, ...] = ()  # On all rows; `Difference.champion` is the anchor's value


class Comparison(Message):
    """The outcome of the gate."""

    promote: bool  # Whether the challenger may replace the champion; `reason` says why, or why not, in one line
    reason: str
    champion: str = ""  # Its name in messages; "" without one
    champion_version: int | None = None  # Its published version
    champion_problem: str = ""  # Why it could not be evaluated; "" if it could
    # Of the intervals on all rows, e.g. 0.95, from `replicates` resamples drawn by `seed`; those on slices are wider,
    # so that all of them together hold with it.
    confidence: float = 0.95
    replicates: int = 0
    seed: int = 0
    seconds: float = 0.0  # Time that the gate took, without an evaluation that was due anyhow
    differences: tuple[Difference, ...] = ()
    # The comparison with the anchor; None if the champion is the best of the last versions
    anchor: Anchored | None = None

    @property
    def is_tolerated(self) -> bool:
        """Whether the challenger passes although some metric on all rows is significantly worse."""
        beside_anchor = () if self.anchor is None else self.anchor.differences
        return self.promote and any(d.finding == TOLERATED and not d.slice for d in (*self.differences, *beside_anchor))

    @property
    def champion_metrics(self) -> dict[str, float]:
        """The champion's metrics on all rows."""
        return {d.metric: d.champion for d in self.differences if not d.slice and d.champion is not None}
