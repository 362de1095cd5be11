"""The consequences of a failed attempt: functions of its failures and of those before."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sparktf.errors import ErrorRecord, LinkCutError, NodeLostError, NotStoredError, TimeUpError, Verdict

_AS_IT_IS = (NotStoredError.__name__, TimeUpError.__name__)
"""A new attempt would train the same again and store it no better, or run out of time again."""

IN_VAIN = 10
"""Attempts in a row that the cluster ended by taking nodes back, with no checkpoint between: then the run ends."""


class Why(enum.Enum):
    """Why nodes are gathered."""

    FIRST = enum.auto()  # For the first attempt
    LOST = enum.auto()  # An attempt has failed
    TAKEN_BACK = enum.auto()  # The cluster took nodes back


class Restart(NamedTuple):
    """The consequence of a failed attempt."""

    said: str  # A line about the attempt
    counts: bool  # As one of `train.max_attempts`
    end: ErrorRecord | None  # The failure that the run ends with; None where another attempt begins


class Restarts:
    """Counts the attempts of a run.

    Attributes:
        why: Why nodes are to be gathered for the next one.
    """

    def __init__(self, allowed: int) -> None:
        """Begins before the first attempt; `allowed` is `train.max_attempts`."""
        self.why = Why.FIRST
        self._allowed = allowed
        self._used = 0
        self._in_vain, self._step = 0, -1
        self._taken_back: Mapping[str, str] = {}

    def look(self, taken_back: Mapping[str, str]) -> None:
        """Notes the nodes whose executors the cluster took back by an attempt's end, each with its reason."""
        self._taken_back = taken_back

    def failed(self, failures: Iterable[ErrorRecord], step: int) -> Restart:
        """Counts a failed attempt; returns its consequence. `step` is that of the newest checkpoint by now."""
        earlier = self._in_vain if step == self._step else 0
        follows = after(failures, self._used + 1, self._allowed, self._taken_back, in_vain=earlier)
        self._used += follows.counts
        self._in_vain, self._step = 0 if follows.counts else earlier + 1, step
        self.why = Why.LOST if follows.counts else Why.TAKEN_BACK
        return follows


def after(
    failures: Iterable[ErrorRecord],
    used: int,
    allowed: int,
    taken_back: Mapping[str, str] = MappingProxyType({}),
    *,
    in_vain: int = 0,
) -> Restart:
    """Returns the consequence of a failed attempt, the `used`th that counts of `train.max_attempts` (`allowed`).

    Args:
        taken_back: Nodes whose executors the cluster took back, each with its reason.
        in_vain: Attempts just before that ended so, since the newest checkpoint.
    """
    cause = root_cause(failures)
    if not may_be_mended(cause):
        return Restart(f"attempt {used} failed: {cause.message}", True, cause)
    if reason := reason_taken_back(cause, taken_back):
        said = f"the cluster took a node back, which does not count as an attempt: {reason}"
        return Restart(said, False, given_up(cause, in_vain + 1))
    said = f"attempt {used} of {allowed} failed: {cause.message}"
    if used < allowed:
        return Restart(said, True, None)
    if allowed > 1:
        cause = cause.model_copy(update={"message": f"{cause.message} (attempt {used} of {allowed})"})
    return Restart(said, True, cause)


def given_up(cause: ErrorRecord, in_vain: int) -> ErrorRecord | None:
    """Returns the failure of a run that gets nowhere: the cluster ended `IN_VAIN` attempts. None: it goes on."""
    if in_vain < IN_VAIN:
        return None
    said = (
        f"the cluster took nodes back {in_vain} times and no checkpoint was stored between: lower "
        f"checkpoint.every_seconds, or submit the run again to another queue, or later: {cause.message}"
    )
    return cause.model_copy(update={"message": said})


def reason_taken_back(cause: ErrorRecord, taken_back: Mapping[str, str]) -> str:
    """Returns why the cluster took the node back that a failed attempt has failed for; "" if it is not for that.

    A node whose silence alone was noticed may have been taken back, and so may the one that left its peers.
    """
    if cause.taken_back:
        return cause.message
    if cause.peer:
        return next((f"{node}: {reason}" for node, reason in taken_back.items()), "")
    reason = taken_back.get(cause.node, "") if cause.type == NodeLostError.__name__ else ""
    return reason and f"{cause.node} on {cause.host}: {reason}"


def may_be_mended(cause: ErrorRecord) -> bool:
    """Returns whether a new attempt may succeed."""
    return cause.verdict is Verdict.INFRASTRUCTURE and cause.type not in _AS_IT_IS


def root_cause(failures: Iterable[ErrorRecord]) -> ErrorRecord:
    """Returns the earliest failure that is not merely the loss of a peer, or else the earliest of all.

    Of losses of peers, a link that is cut comes first: for the others, one of its ends has left them.
    """
    return min(failures, key=lambda f: (f.peer, f.type != LinkCutError.__name__, f.time_s))
