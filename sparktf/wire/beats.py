"""How often the nodes of a gang say that they live, and how long one may be silent: functions of its size.

The driver says with each answer when it wants to hear of an agent or trainer again. Every call takes its processor,
whatever it says; so hundreds of nodes are heard less often while they train than while they wait for an order. A
trainer ends with its agent: as long as it is heard, it speaks for both, and the agent itself is heard half as often.
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
large one are heard so many times as often as at work."""
_MISSED = 3
"""A node may miss so many heartbeats before it counts as lost."""
_ASKED = 2
"""A driver that is gone is noticed by so many heartbeats at least before a node ends itself. One that was not answered
is repeated at once, and then twice a second: so each of them is many."""
_VOUCHED = 2
"""An agent whose trainer is heard may wait for so many of its heartbeats: fewer than may be missed, so that one whose
trainer has fallen silent still speaks for itself before it counts as lost, and hears that it is to end it."""


class Beats(NamedTuple):
    """The rhythm of one gang.

    Attributes:
        steady_s: Between two heartbeats of a trainer that is at work, and of its agent while it is not heard.
        vouched_s: Between two heartbeats of an agent whose trainer is heard.
        waiting_s: Between two heartbeats of one that waits for an order.
        silence_s: An agent or trainer not heard for so long is lost.
    """

    steady_s: float
    vouched_s: float
    waiting_s: float
    silence_s: float


SMALL = Beats(QUICK_S, QUICK_S, _SOONEST_S, 15.0)
"""Of a gang of a few nodes, with the timeouts that there are if nobody sets any."""


def beats(nodes: int, *, heartbeat_s: float, driver_lost_s: float) -> Beats:
    """Returns the rhythm of a gang.

    Args:
        heartbeat_s: `timeouts.heartbeat`, which is for gangs whose nodes beat often enough for it.
        driver_lost_s: `timeouts.driver_lost`: a node that has not been answered for so long ends itself.
    """
    beats_of_node = 1 + 1 / _VOUCHED
    least_s = min(beats_of_node * nodes * _CALL_S / _SHARE, driver_lost_s / _ASKED)
    steady_s, vouched_s = max(least_s, QUICK_S), max(_VOUCHED * least_s, QUICK_S)
    waiting_s = min(max(nodes * _SOONEST_PER_NODE_S, _SOONEST_S), QUICK_S)
    return Beats(steady_s, vouched_s, max(steady_s / _SOONER, waiting_s), max(_MISSED * steady_s, heartbeat_s))
