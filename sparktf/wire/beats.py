"""Heartbeat intervals and silence limits of a gang, as functions of its size.

Each answer of the driver says when it wants the next heartbeat. Every call costs the driver processor time, so hundreds
of nodes send fewer heartbeats while they train than while they wait for an order. A trainer ends with its agent, so its
heartbeats count for both, and the agent sends half as many meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

QUICK_S = 0.5
"""Interval of heartbeats in a small gang while it trains, and in any gang before the first answer."""

_CALL_S = 1.0e-3
"""The driver's processor time for a heartbeat, on the slower of two machines: `make bench-scale`."""
_SHARE = 0.05
"""Share of one core for the heartbeats of all training nodes."""
_SOONEST_S, _SOONEST_PER_NODE_S, _SOONER = 0.1, 0.02, 8
"""Intervals while a node waits for an order, which is never for long: short ones in a small gang, and in a large one
this many times shorter than while it trains."""
_MISSED = 3
"""Heartbeats that a node may miss before it counts as lost."""
_ASKED = 2
"""Failed heartbeats after which a node considers the driver gone and ends itself; unanswered ones are retried twice a
second."""
_VOUCHED = 2
"""Factor of an agent's interval while its trainer sends heartbeats: less than `_MISSED`, so that an agent whose trainer
has fallen silent still reports, and gets the order to end it, before it counts as lost."""


class Beats(NamedTuple):
    """Heartbeat intervals of one gang."""

    steady_s: float  # Interval of a training trainer's heartbeats, and of its agent's while the trainer sends none
    vouched_s: float  # Interval of an agent's heartbeats while its trainer sends some
    waiting_s: float  # Interval while waiting for an order
    silence_s: float  # Silence after which an agent or trainer is lost


SMALL = Beats(QUICK_S, QUICK_S, _SOONEST_S, 15.0)
"""Intervals of a gang of a few nodes, with the default timeouts."""


def beats(nodes: int, *, heartbeat_s: float, driver_lost_s: float) -> Beats:
    """Returns the heartbeat intervals of a gang.

    Args:
        heartbeat_s: `timeouts.heartbeat`: the silence limit of a gang that is not too large for it.
        driver_lost_s: `timeouts.driver_lost`: the driver's silence after which a node ends itself.
    """
    beats_of_node = 1 + 1 / _VOUCHED
    least_s = min(beats_of_node * nodes * _CALL_S / _SHARE, driver_lost_s / _ASKED)
    steady_s, vouched_s = max(least_s, QUICK_S), max(_VOUCHED * least_s, QUICK_S)
    waiting_s = min(max(nodes * _SOONEST_PER_NODE_S, _SOONEST_S), QUICK_S)
    return Beats(steady_s, vouched_s, max(steady_s / _SOONER, waiting_s), max(_MISSED * steady_s, heartbeat_s))
