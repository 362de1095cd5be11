"""The driver's view of its agents, with a clock that the test moves."""

from __future__ import annotations

import pytest

from sparktf.config import JobConfig
from sparktf.driver.roster import Roster
from sparktf.errors import RefusedError
from sparktf.feature import FeedSpec
from sparktf.lifecycle import AgentState
from sparktf.messages import AgentHeartbeat, Order, Registration, TrainerExited, TrainerSpec
from sparktf.topology import ClusterSpec, NodeId, Role

SILENCE_S = 10.0
CONFIG = JobConfig.model_validate(
    {
        "name": "n",
        "model": "m:f",
        "data": {"path": "/d", "inputs": {"x": "x"}, "targets": {"y": "y"}},
        "output": {"path": "/o"},
    }
)


class Clock:
    """A clock that stands still."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def registration(agent: str, partition: int = 0) -> Registration:
    return Registration(agent=agent, partition=partition, host="h", jvm="1@2", address="h:1", versions={})


def trainer(attempt: int = 1) -> TrainerSpec:
    return TrainerSpec(
        run_id="r",
        run_root="/o",
        attempt=attempt,
        node=NodeId(role=Role.WORKER, index=0),
        cluster=ClusterSpec(worker=("h:1",)),
        config=CONFIG,
        feed=FeedSpec(features=()),
        rows={},
        assets={},
    )


def beat(agent: str, attempt: int | None = None) -> AgentHeartbeat:
    return AgentHeartbeat(agent=agent, address="h:1", attempt=attempt)


def exited(agent: str) -> TrainerExited:
    node = NodeId(role=Role.WORKER, index=0)
    return TrainerExited(agent=agent, attempt=1, node=node, exit_code=0, time_s=0.0, log="", log_tail="")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def roster(clock: Clock) -> Roster:
    return Roster(clock, SILENCE_S)


def states(roster: Roster) -> list[AgentState]:
    return [agent.state for agent in roster.here()]


def test_an_agent_is_ordered_to_start_until_it_says_that_it_runs(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", trainer())])

    assert roster.heartbeat(beat("a")).order is Order.START
    assert roster.heartbeat(beat("a")).order is Order.START, "the answer may have been lost"
    assert roster.heartbeat(beat("a", attempt=1)).order is Order.WAIT
    assert states(roster) == [AgentState.BUSY]


def test_a_stopped_trainer_leaves_its_agent_idle(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", trainer())])
    roster.heartbeat(beat("a", attempt=1))

    roster.stop_trainers()
    assert roster.heartbeat(beat("a", attempt=1)).order is Order.STOP
    assert not roster.is_quiet()
    roster.trainer_exited(exited("a"))

    assert roster.is_quiet()
    assert roster.heartbeat(beat("a")).order is Order.WAIT


def test_a_trainer_that_was_not_started_yet_is_taken_back(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", trainer())])

    roster.stop_trainers()

    assert roster.heartbeat(beat("a")).order is Order.WAIT
    assert roster.is_quiet()


def test_a_trainer_that_started_after_it_was_taken_back_is_stopped(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", trainer())])
    roster.stop_trainers()

    assert roster.heartbeat(beat("a", attempt=1)).order is Order.STOP


def test_a_silent_agent_is_lost_and_refused_from_then_on(roster: Roster, clock: Clock) -> None:
    roster.register(registration("a"))
    clock.now_s += SILENCE_S + 1

    lost = roster.sweep()

    assert [(entry.agent.id, entry.reason) for entry in lost] == [("a", "silent for 11 s")]
    assert roster.sweep() == []
    with pytest.raises(RefusedError, match="lost its place"):
        roster.heartbeat(beat("a"))


def test_a_new_agent_of_a_partition_takes_the_place_of_the_old(roster: Roster) -> None:
    roster.register(registration("old"))

    assert roster.register(registration("new")).accepted

    assert [agent.id for agent in roster.here()] == ["new"]
    assert [entry.agent.id for entry in roster.sweep()] == ["old"]


def test_under_speculation_a_second_agent_waits_until_the_first_is_silent(clock: Clock) -> None:
    roster = Roster(clock, SILENCE_S, duplicates_wait=True)
    roster.register(registration("first"))

    assert not roster.register(registration("second")).accepted
    clock.now_s += SILENCE_S + 1
    assert roster.register(registration("second")).accepted

    assert [agent.id for agent in roster.here()] == ["second"]


def test_registering_twice_changes_nothing(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.register(registration("a"))

    assert [agent.id for agent in roster.here()] == ["a"]


def test_dismissed_agents_are_sent_home_and_nobody_registers_any_more(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.dismiss()

    assert roster.heartbeat(beat("a")).order is Order.DISMISS
    assert roster.here() == []
    with pytest.raises(RefusedError, match="the run is over"):
        roster.register(registration("late", partition=1))
