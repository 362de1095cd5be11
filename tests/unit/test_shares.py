"""An epoch is dealt to the nodes that ask, once, and while all others are answered."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lakes import lake_config, plan_lake, write_lake

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.saves import Start
from sparktf.driver.gang.handlers import Dispatcher
from sparktf.driver.gang.roster import Roster
from sparktf.driver.lifecycle import TrainerState
from sparktf.driver.plan.plan import Assignments, Plan
from sparktf.sequence import Interval, Stream, remaining
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Action, AssignmentAnswer, AssignmentRequest, Heartbeat, Progress, Registration

NODES = [NodeId(role=Role.WORKER, index=i) for i in range(4)]


@dataclasses.dataclass(frozen=True)
class WatchedPlan(Plan):
    """Says that it is being dealt, before it is."""

    before: Callable[[], None] = lambda: None

    def assignments(
        self, stream: Stream, epoch: int, intervals: Sequence[Interval], *args: Any, **kw: Any
    ) -> Assignments:
        """See `Plan`."""
        self.before()
        return super().assignments(stream, epoch, intervals, *args, **kw)


class Nodes:
    """The trainers of an attempt, and what answers them."""

    def __init__(self, lake: Path, before: Callable[[], None] = lambda: None) -> None:
        plan = plan_lake(lake)
        fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
        trainers = [Trainer(n, f"agent {n.index}", "h", 0.0, 0.0, state=TrainerState.TRAINING) for n in NODES]
        watched = WatchedPlan(**fields, before=before)
        roster = Roster(lambda: 0.0, silence_s=15.0)
        for i, trainer in enumerate(trainers):
            address = f"h:{i}"
            roster.register(
                Registration(agent=trainer.agent, partition=i, host="h", jvm="1", address=address, versions={})
            )
        dispatcher = Dispatcher(roster)
        dispatcher.attempt = Attempt(1, lake_config(lake), watched, Start(), trainers, lambda: 0.0, lambda: 0.0)
        self.handlers = dispatcher.handlers()

    def ask(self, node: NodeId, epoch: int = 0) -> list[Interval]:
        """Returns the intervals that a node is given."""
        request = AssignmentRequest(attempt=1, node=node, stream=Stream.TRAIN, epoch=epoch)
        answer = self.handlers[Action.ASSIGNMENT].answer(request)
        assert isinstance(answer, AssignmentAnswer)
        assert answer.assignment is not None
        return answer.assignment.intervals

    def beat(self, node: NodeId) -> None:
        """A node says that it lives."""
        self.handlers[Action.HEARTBEAT].answer(Heartbeat(attempt=1, node=node, progress=Progress()))


def test_while_an_epoch_is_dealt_everybody_else_is_answered(tmp_path: Path) -> None:
    answered: list[bool] = []

    def beat_from_elsewhere() -> None:
        thread = threading.Thread(target=nodes.beat, args=(NODES[1],), daemon=True)
        thread.start()
        thread.join(10)
        answered.append(not thread.is_alive())

    nodes = Nodes(write_lake(tmp_path / "lake", [40]), beat_from_elsewhere)
    nodes.ask(NODES[0])
    assert answered == [True]


def test_nodes_that_ask_at_once_share_what_is_dealt_once(tmp_path: Path) -> None:
    dealt: list[None] = []
    nodes = Nodes(write_lake(tmp_path / "lake", [40, 3]), lambda: dealt.append(None))
    with ThreadPoolExecutor(len(NODES)) as threads:
        shares = list(threads.map(nodes.ask, NODES))
    assert remaining(43, [interval for share in shares for interval in share]) == []
    assert nodes.ask(NODES[2]) == shares[2]  # its answer was lost
    assert len(dealt) == 1


def test_a_node_that_asks_for_the_epoch_before_gets_what_it_got(tmp_path: Path) -> None:
    nodes = Nodes(write_lake(tmp_path / "lake", [40, 3]))
    first = nodes.ask(NODES[3])
    assert nodes.ask(NODES[0], epoch=1)
    assert nodes.ask(NODES[3]) == first
