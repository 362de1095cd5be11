"""The consequences of a failed attempt: functions of its failures and of those before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sparktf.errors import ErrorRecord, LinkCutError, NotStoredError, TimeUpError, Verdict

_AS_IT_IS = (NotStoredError.__name__, TimeUpError.__name__)
"""A new attempt would train the same again and store it no better, or run out of time again."""


class Restart(NamedTuple):
    """The consequence of a failed attempt."""

    said: str  # A line about the attempt
    end: ErrorRecord | None  # The failure that the run ends with; None where another attempt begins


def after(failures: Iterable[ErrorRecord], used: int, allowed: int) -> Restart:
    """Returns the consequence of a failed attempt, the `used`th of `train.max_attempts` (`allowed`)."""
    cause = root_cause(failures)
    if not may_be_mended(cause):
        return Restart(f"attempt {used} failed: {cause.message}", cause)
    said = f"attempt {used} of {allowed} failed: {cause.message}"
    if used < allowed:
        return Restart(said, None)
    if allowed > 1:
        cause = cause.model_copy(update={"message": f"{cause.message} (attempt {used} of {allowed})"})
    return Restart(said, cause)


def may_be_mended(cause: ErrorRecord) -> bool:
    """Returns whether a new attempt may succeed."""
    return cause.verdict is Verdict.INFRASTRUCTURE and cause.type not in _AS_IT_IS


def root_cause(failures: Iterable[ErrorRecord]) -> ErrorRecord:
    """Returns the earliest failure that is not merely the loss of a peer, or else the earliest of all.

    Of losses of peers, a link that is cut comes first: for the others, one of its ends has left them.
    """
    return min(failures, key=lambda f: (f.peer, f.type != LinkCutError.__name__, f.time_s))
