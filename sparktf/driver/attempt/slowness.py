"""Which nodes of a synchronous gang compute longer than the others, so that all wait for them: a function of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import NamedTuple

from sparktf.driver.attempt.members import Members
from sparktf.results.pace import SlowNode, Strain, UpdatePace
from sparktf.topology import NodeId

SLOW = 1.5
"""A node is slow whose computing takes this many times the median."""

MATTERS = 0.1
"""And which would be done sooner, without that, by this share of its time: else the gang waits for something else."""

_LOOKS = 12
"""So often it is looked in the time after which a slow node is named."""


class Told(NamedTuple):
    """The present trainer of a node, by its last heartbeat."""

    host: str
    incarnation: int
    step: int  # Updates of the whole run
    pace: UpdatePace


class _Seen(NamedTuple):
    """A node at the last look."""

    told: Told
    slow_s: float = 0.0  # Time of its updates in which it was slow, without a break
    since: Strain | None = None  # At the beginning of that
    named: bool = False


class _Measured(NamedTuple):
    """A node's mean update since the last look."""

    computing_s: float
    rows: float
    update_s: float  # With all waiting
    seconds: float  # Of all of these updates


@dataclass(frozen=True, slots=True)
class Slowness:
    """See the module; a value: each look makes a new one."""

    limit_s: float  # A node is named that was slow for so long
    looked_s: float = 0.0
    seen: Mapping[NodeId, _Seen] = field(default_factory=dict)

    def look(self, told: Mapping[NodeId, Told], now_s: float) -> tuple[Slowness, tuple[SlowNode, ...]]:
        """Returns it after a look at all members, with the nodes that are to be named; each is named once.

        A look counts once each member has told of an update since the one before: heartbeats come one after the other.
        """
        if now_s - self.looked_s < self.limit_s / _LOOKS:
            return self, ()
        new = {node: now for node, now in told.items() if not self._knows(node, now)}
        was_named = {node for node in new if node in self.seen and self.seen[node].named}
        seen = {**self.seen, **{node: _Seen(now, named=node in was_named) for node, now in new.items()}}
        found = {node: self._measured(node, now) for node, now in told.items() if node not in new}
        measured = {node: each for node, each in found.items() if each is not None}
        if len(measured) < len(found):
            return replace(self, seen=seen), ()
        median_s = _median_s(measured)
        named = []
        for node, each in measured.items():
            seen[node] = after = _after(self.seen[node], told[node], each, median_s)
            if after.slow_s >= self.limit_s and not after.named and median_s is not None:
                seen[node] = after._replace(named=True)
                named.append(_slow(node, after, each, median_s))
        return replace(self, looked_s=now_s, seen=seen), tuple(named)

    def _knows(self, node: NodeId, now: Told) -> bool:
        return node in self.seen and self.seen[node].told.incarnation == now.incarnation

    def _measured(self, node: NodeId, now: Told) -> _Measured | None:
        then, pace = self.seen[node].told.pace, now.pace
        if (updates := pace.updates - then.updates) <= 0:
            return None
        seconds = pace.seconds - then.seconds
        computing_s = pace.computing.total_s - then.computing.total_s
        return _Measured(computing_s / updates, (pace.rows - then.rows) / updates, seconds / updates, seconds)


def paces_of(members: Members, present: Mapping[NodeId, object]) -> dict[NodeId, Told]:
    """Returns the pace of each present member of a gang, as far as they are known."""
    trainers = [members[node] for node in present]
    return {t.node: Told(t.host, t.incarnation, t.progress.step, t.pace) for t in trainers if t.pace is not None}


def _median_s(measured: Mapping[NodeId, _Measured]) -> float | None:
    """Returns the median of the nodes that have their share of the rows; of an even number, the lower one's.

    So of two nodes the slower one is compared with the other. A node that has run dry computes nothing.
    """
    most = max((each.rows for each in measured.values()), default=0.0)
    times = [each.computing_s for each in measured.values() if each.rows * 2 >= most]
    return median_low(times) if len(times) > 1 else None


def _after(before: _Seen, now: Told, measured: _Measured, median_s: float | None) -> _Seen:
    is_slow = (
        median_s is not None
        and measured.computing_s >= SLOW * median_s
        and measured.computing_s - median_s >= MATTERS * measured.update_s
    )
    if not is_slow:
        return _Seen(now, named=before.named)
    since = before.since if before.slow_s else before.told.pace.strain
    return _Seen(now, before.slow_s + measured.seconds, since, before.named)


def _slow(node: NodeId, seen: _Seen, measured: _Measured, median_s: float) -> SlowNode:
    strain, since = seen.told.pace.strain, seen.since
    return SlowNode(
        node=str(node),
        host=seen.told.host,
        step=seen.told.step,
        computing_s=measured.computing_s,
        median_s=median_s,
        seconds=round(seen.slow_s, 1),
        strain="" if strain is None or since is None else strain.in_words(since),
    )
