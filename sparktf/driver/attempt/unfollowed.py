"""Lost workers that nobody follows, and what becomes of their attempt: functions of (state, now)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sparktf.topology import NodeId

FRUITLESS = 4
"""So many trainers of a node in a row are lost without any rows trained, or checkpoint evaluated, and none follows; as
spark.task.maxFailures is by default."""


class Loss(NamedTuple):
    """A worker that is lost, and that nobody follows yet.

    Attributes:
        since_s: When it was noticed, by the driver's monotonic clock.
        fruitless: It is the last of so many of its node in a row of which no rows are known to be trained.
        stood_in: A stand-in has its place already.
    """

    since_s: float
    fruitless: int = 0
    stood_in: bool = False

    @property
    def is_hopeless(self) -> bool:
        """Whether the next trainer would be lost as the ones before."""
        return self.fruitless >= FRUITLESS


class StandIn(NamedTuple):
    """Training goes on without these, with stand-ins in their places; says of each why nobody follows it."""

    reasons: Mapping[NodeId, str]


class GiveUp(NamedTuple):
    """Too few workers are left, by the loss of this one."""

    node: NodeId
    reason: str


def decide(
    losses: Mapping[NodeId, Loss], now_s: float, limit_s: float, *, workers: int, least: int
) -> StandIn | GiveUp:
    """Returns what follows from the workers that are lost.

    Args:
        losses: Those whose places nobody has, the first first.
        limit_s: So long a place may be vacant, `timeouts.replace`.
        workers: How many the attempt has, the lost ones among them.
        least: With fewer it cannot go on: `cluster.min_workers`, or all where updates take several gradients.
    """
    reasons = {node: reason for node, loss in losses.items() if (reason := _reason(node, loss, now_s, limit_s))}
    new = {node: reason for node, reason in reasons.items() if not losses[node].stood_in}
    left = workers - len(reasons)
    if left >= least:
        return StandIn(new)
    node, reason = next(iter((new or reasons).items()))
    few = f"of {workers} workers {left} would be left, and {least} are needed" if left else "no worker is left"
    return GiveUp(node, f"{reason}, and {few}")


def _reason(node: NodeId, loss: Loss, now_s: float, limit_s: float) -> str:
    """Returns why nobody follows a lost worker; "" while somebody may."""
    if loss.is_hopeless:
        return f"the last {loss.fruitless} of {node} trained no row: it gets no other"
    if now_s - loss.since_s > limit_s:
        return f"nobody took its place within timeouts.replace: {limit_s:g} s"
    return ""
