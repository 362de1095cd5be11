"""Heartbeat intervals and silence limits of a gang, as functions of its size.

Each answer of the driver says when it wants the next heartbeat. Every call costs the driver processor time, so hundreds
of nodes send fewer heartbeats while they train than while they wait for an order. A trainer ends with its agent, so its
heartbeats count for both, and the agent sends half as many meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

QUICK_S = 0.5
"""Between two heartbeats of a node of a small gang that is at work, and of one that has no answer yet."""

_CALL_S = 1.0e-3
"""The driver's processor time for a heartbeat, on the slower of two machines: `make bench-scale`."""
_SHARE = 0.05
"""Of one core, for all heartbeats of agents and trainers that are at work."""
_SOONEST_S, _SOONEST_PER_NODE_S, _SOONER = 0.1, 0.02, 8
"""For a node that waits for an order, which is never for long: those of a small gang are not kept waiting, those of a
large one are heard this many times as often as at work."""
_MISSED = 3
"""Heartbeats that a node may miss before it counts as lost."""
_ASKED = 2
"""Heartbeats that fail before a node takes the driver for gone and ends itself; an unanswered one is retried twice a
second."""
_VOUCHED = 2
"""How many times longer an agent may be silent while its trainer is heard: less than `_MISSED`, so that an agent whose
trainer has fallen silent still reports, and is told to end it, before it counts as lost."""


class Beats(NamedTuple):
    """Heartbeat intervals of one gang."""

    steady_s: float  # Interval of a training trainer's heartbeats, and of its agent's while the trainer sends none
    vouched_s: float  # Interval of an agent's heartbeats while its trainer sends some
    waiting_s: float  # Interval while waiting for an order
    silence_s: float  # Silence after which an agent or trainer is lost


SMALL = Beats(QUICK_S, QUICK_S, _SOONEST_S, 15.0)
"""Of a gang of a few nodes, with the default timeouts."""


def beats(nodes: int, *, heartbeat_s: float, driver_lost_s: float) -> Beats:
    """Returns the heartbeat intervals of a gang.

    Args:
        heartbeat_s: `timeouts.heartbeat`, for gangs that are small enough for it.
        driver_lost_s: `timeouts.driver_lost`: the driver's silence after which a node ends itself.
    """
    beats_of_node = 1 + 1 / _VOUCHED
    least_s = min(beats_of_node * nodes * _CALL_S / _SHARE, driver_lost_s / _ASKED)
    steady_s, vouched_s = max(least_s, QUICK_S), max(_VOUCHED * least_s, QUICK_S)
    waiting_s = min(max(nodes * _SOONEST_PER_NODE_S, _SOONEST_S), QUICK_S)
    return Beats(steady_s, vouched_s, max(steady_s / _SOONER, waiting_s), max(_MISSED * steady_s, heartbeat_s))
