"""A run at a glance: its outcome and the reason."""

from __future__ import annotations

import datetime as dt
from typing import Literal, NamedTuple

from sparktf.console.result_table import ending_of
from sparktf.errors import Verdict
from sparktf.results.result import RunResult
from sparktf.storage.transactions.terms import LastWord

Tone = Literal["good", "worse", "kept", "bad", "waits", "plain"]
"""good: a new model; worse: one that is worse, within the tolerance; kept: the old one stays; bad: somebody has to
look;  waits: later; plain: none of them."""


class Headline(NamedTuple):
    """The top of the page."""

    title: str  # A few words
    reason: str  # One line; "" for none
    tone: Tone


_FAILED = {
    Verdict.MODEL_FAILED: "Failed: the model's code",
    Verdict.REFUSED: "Refused: configuration or cluster",
    Verdict.DATA_REFUSED: "Data refused",
    Verdict.INFRASTRUCTURE: "Failed: infrastructure",
}


def headline_of_unended(word: LastWord, now_s: float, last_line: str = "") -> Headline:
    """Returns the headline of a run without a result, which is under way or has lost its driver.

    Args:
        now_s: Seconds since 1970.
        last_line: Its last line on the console.
    """
    heard = f"last word {dt.datetime.fromtimestamp(word.heard_s, dt.UTC):%Y-%m-%d %H:%M}" if word.heard_s else ""
    if word.is_over(now_s):
        return Headline("No result", "; ".join(part for part in (heard, "submit the same run id") if part), "bad")
    return Headline("Under way", last_line or heard, "plain")


def headline_of(result: RunResult) -> Headline:
    """Returns the headline of a run that has ended."""
    if result.is_interrupted:
        return Headline("Interrupted", _cause(result), "waits")
    if result.verdict is Verdict.DONE:
        return _done(result)
    if result.verdict is Verdict.GATED:
        return Headline(f"Kept {_champion(result)}", _gate(result) or _cause(result), "kept")
    if result.verdict is Verdict.NOT_READY:
        return Headline("Data not there yet", _cause(result), "waits")
    return Headline(_FAILED.get(result.verdict, f"Failed: {ending_of(result)}"), _cause(result), "bad")


def published_version(result: RunResult) -> int | None:
    """Returns the version that a run has published; None without one."""
    version = result.extra.get("published")
    return version if isinstance(version, int) else None


def _done(result: RunResult) -> Headline:
    version = published_version(result)
    if version is not None:
        return Headline(f"Published version {version}", _gate(result), _passed(result))
    if "published" in result.extra:
        return Headline("Trained, not published", str(result.extra.get("publishing", "")), "kept")
    ended = "" if result.stopped is None else result.stopped.text
    return Headline("Trained", _gate(result) or ended, _passed(result))


def _passed(result: RunResult) -> Tone:
    return "worse" if result.comparison is not None and result.comparison.is_tolerated else "good"


def _champion(result: RunResult) -> str:
    version = None if result.comparison is None else result.comparison.champion_version
    return "the champion" if version is None else f"the champion, version {version}"


def _gate(result: RunResult) -> str:
    return "" if result.comparison is None else result.comparison.reason


def _cause(result: RunResult) -> str:
    return "" if result.error is None else result.error.message
