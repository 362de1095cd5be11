"""What becomes of functions that a gang of guests runs, by a clock that the test moves."""

from __future__ import annotations

import pytest
from pretend import PretendClock

from sparktf.compat.guest_books import GuestBooks
from sparktf.driver.gang.roster import Roster
from sparktf.errors import NodeLostError
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Heartbeat, Progress, Ready, Registration, StopOrder
from sparktf.wire.guest import GuestNode

SILENCE_S = 10.0
NODES = [NodeId(role=Role.WORKER, index=i) for i in range(2)]


def registration(number: int) -> Registration:
    host, agent = f"h{number}", f"agent{number}"
    return Registration(agent=agent, partition=number, task=number, host=host, jvm=agent, address="h:1", versions={})


def guest(number: int) -> GuestNode:
    addresses: dict[str, tuple[str, ...]] = {"worker": ("h:1", "h:1")}
    return GuestNode(
        number=number, job="worker", index=number, cluster=addresses, default_fs="", working_dir="/", is_fed=False
    )


class Gang:
    """Two nodes that have begun."""

    def __init__(self) -> None:
        self.clock = PretendClock()
        self.roster = Roster(self.clock.now_s, SILENCE_S)
        self.books = GuestBooks(self.roster, self.clock, SILENCE_S)
        for number in range(len(NODES)):
            self.roster.register(registration(number))
        with self.roster.changed:
            for agent, (number, node) in zip(self.roster.here(), enumerate(NODES), strict=True):
                self.books.add(node, guest(number), agent, self.clock.now_s())
        for node in NODES:
            self.books.ready(Ready(attempt=1, node=node, replicas=1, keras="keras", versions={}, weights=0))

    def stops(self, node: NodeId) -> bool:
        """Says that a node is alive, and whether it is told to stop."""
        return StopOrder() in self.books.heartbeat(Heartbeat(attempt=1, node=node, progress=Progress())).orders

    def pass_s(self, seconds: float) -> None:
        self.clock.advance(seconds)
        with self.roster.changed:
            self.books.look(self.clock.now_s())


def test_a_node_that_says_nothing_for_too_long_is_lost_and_all_others_stop() -> None:
    gang = Gang()
    gang.pass_s(SILENCE_S - 1)
    assert not gang.stops(NODES[0])
    with gang.roster.changed:
        gang.roster.vouch("agent1")  # which says nothing of the function's process
    gang.pass_s(2)
    with pytest.raises(NodeLostError, match="worker 1 on h1 was silent for 11 s"):
        gang.books.check()
    assert gang.stops(NODES[0])
    failure = gang.books.failure
    assert failure is not None
    assert failure.time_s == gang.clock.wall_s(), "the time is that of the clock that all others go by"
