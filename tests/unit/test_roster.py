"""The driver's view of its agents, with a clock that the test moves."""

from __future__ import annotations

import itertools

import pytest
from specs import trainer_spec

from sparktf.driver.gang.roster import Roster
from sparktf.driver.lifecycle import AgentState
from sparktf.errors import RefusedError
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AgentHeartbeat, Order, Registration, TrainerExited
from sparktf.wire.trainer_spec import Training

SILENCE_S = 10.0
SPEC = trainer_spec()


class Clock:
    """A clock that stands still."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def registration(agent: str, partition: int = 0, before: str = "", task: int = 0) -> Registration:
    return Registration(
        agent=agent, partition=partition, task=task, host="h", jvm="1@2", address="h:1", versions={}, before=before
    )


_NUMBERS = itertools.count(1)


def beat(agent: str, trainer: Training | None = None, address: str = "h:1") -> AgentHeartbeat:
    """What an agent says while it runs a trainer, or none."""
    running = None if trainer is None else trainer.trainer
    return AgentHeartbeat(agent=agent, number=next(_NUMBERS), address=address, trainer=running)


def exited(agent: str, trainer: Training = SPEC) -> TrainerExited:
    return TrainerExited(agent=agent, **trainer.sender, exit_code=0, time_s=0.0, log="", log_tail="")


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
    roster.start([("a", SPEC)])

    assert roster.heartbeat(beat("a")).order is Order.START
    assert roster.heartbeat(beat("a")).order is Order.START, "the answer may have been lost"
    assert roster.heartbeat(beat("a", SPEC)).order is Order.WAIT
    assert states(roster) == [AgentState.BUSY]


def test_a_stopped_trainer_leaves_its_agent_idle(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", SPEC)])
    roster.heartbeat(beat("a", SPEC))

    roster.stop_trainers()
    assert roster.heartbeat(beat("a", SPEC)).order is Order.STOP
    assert not roster.is_quiet()
    roster.trainer_exited(exited("a"))

    assert roster.heartbeat(beat("a")).order is Order.WAIT
    assert roster.is_quiet()


def test_what_an_agent_tells_again_of_a_trainer_that_has_ended_takes_nothing_from_the_next_attempt(
    roster: Roster,
) -> None:
    """A driver that was frozen answers a call and its repetition, in any order with what came later."""
    roster.register(registration("a"))
    roster.start([("a", SPEC)])
    roster.heartbeat(beat("a", SPEC))
    roster.trainer_exited(exited("a"))
    roster.heartbeat(beat("a", SPEC))
    assert states(roster) == [AgentState.IDLE]

    roster.start([("a", trainer_spec(attempt=2))])
    roster.trainer_exited(exited("a"))
    assert roster.heartbeat(beat("a")).order is Order.START
    assert roster.heartbeat(beat("a", trainer_spec(attempt=2))).order is Order.WAIT
    assert states(roster) == [AgentState.BUSY]


def test_a_trainer_that_was_not_started_yet_is_taken_back(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", SPEC)])

    roster.stop_trainers()

    assert roster.heartbeat(beat("a")).order is Order.WAIT
    assert roster.is_quiet()


def test_a_trainer_that_started_after_it_was_taken_back_is_stopped(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", SPEC)])
    roster.stop_trainers()

    assert roster.heartbeat(beat("a", SPEC)).order is Order.STOP


@pytest.fixture
def frozen(roster: Roster, clock: Clock) -> Roster:
    """A roster whose agent "a" was silent for too long, while it ran a trainer."""
    roster.register(registration("a"))
    roster.start([("a", SPEC)])
    roster.heartbeat(beat("a", SPEC))
    clock.now_s += SILENCE_S + 1
    roster.sweep()
    return roster


def test_a_silent_agent_is_lost_and_must_register_anew_when_it_speaks_again(roster: Roster, clock: Clock) -> None:
    roster.register(registration("a"))
    clock.now_s += SILENCE_S + 1

    lost = roster.sweep()

    assert [(entry.agent.id, entry.reason) for entry in lost] == [("a", "silent for 11 s")]
    assert roster.sweep() == []
    assert roster.heartbeat(beat("a")).order is Order.REJOIN
    assert roster.here() == [], "a heartbeat does not bring it back"


def test_an_agent_that_registers_anew_has_its_place_again_and_gets_trainers(frozen: Roster) -> None:
    assert frozen.heartbeat(beat("a", SPEC)).order is Order.REJOIN
    assert frozen.register(registration("b", before="a")).accepted
    frozen.start([("b", trainer_spec(attempt=2))])

    assert frozen.heartbeat(beat("b")).order is Order.START
    assert [agent.id for agent in frozen.here()] == ["b"]
    assert frozen.sweep() == [], "nobody is lost by that"


def test_what_a_lost_agents_trainer_did_counts_no_more(frozen: Roster) -> None:
    frozen.register(registration("b", before="a"))
    frozen.trainer_exited(exited("a"))

    assert frozen.heartbeat(beat("a")).order is Order.REJOIN
    assert states(frozen) == [AgentState.IDLE]


def test_an_agent_that_is_back_waits_while_another_has_its_place(frozen: Roster, clock: Clock) -> None:
    frozen.register(registration("sparks"))

    assert not frozen.register(registration("b", before="a")).accepted
    assert [agent.id for agent in frozen.here()] == ["sparks"]

    clock.now_s += SILENCE_S + 1
    assert frozen.register(registration("b", before="a")).accepted
    assert [agent.id for agent in frozen.here()] == ["b"]
    assert [(entry.agent.id, entry.reason) for entry in frozen.sweep()] == [("sparks", "silent for 11 s")]


def test_an_agent_that_freezes_again_registers_once_more(frozen: Roster, clock: Clock) -> None:
    frozen.register(registration("b", before="a"))
    clock.now_s += SILENCE_S + 1
    frozen.sweep()

    assert frozen.register(registration("b", before="a")).accepted, "the answer to the first call may have been lost"
    assert frozen.heartbeat(beat("b")).order is Order.REJOIN
    assert frozen.register(registration("c", before="b")).accepted
    assert [agent.id for agent in frozen.here()] == ["c"]


def test_a_displaced_agent_does_not_take_its_place_back(roster: Roster) -> None:
    roster.register(registration("old"))
    roster.register(registration("new"))

    assert roster.heartbeat(beat("old")).order is Order.REJOIN
    assert not roster.register(registration("older", before="old")).accepted
    assert [agent.id for agent in roster.here()] == ["new"]


def test_agents_whose_job_has_ended_go_home_the_frozen_ones_too(frozen: Roster) -> None:
    frozen.register(registration("other", partition=1))
    frozen.lose_all("the job has ended")

    assert [(entry.agent.id, entry.reason) for entry in frozen.sweep()] == [("other", "the job has ended")]
    assert [frozen.heartbeat(beat(agent)).order for agent in ("a", "other")] == [Order.DISMISS] * 2
    with pytest.raises(RefusedError, match="the run is over"):
        frozen.register(registration("b", before="a"))
    assert frozen.register(registration("started again")).accepted


def test_an_agent_that_thaws_after_the_run_goes_home(frozen: Roster) -> None:
    frozen.dismiss()

    assert frozen.heartbeat(beat("a")).order is Order.DISMISS
    with pytest.raises(RefusedError, match="the run is over"):
        frozen.register(registration("b", before="a"))


def test_a_new_agent_of_a_partition_takes_the_place_of_the_old(roster: Roster) -> None:
    roster.register(registration("old"))

    assert roster.register(registration("new")).accepted

    assert [agent.id for agent in roster.here()] == ["new"]
    assert [entry.agent.id for entry in roster.sweep()] == ["old"]


def test_what_an_agent_said_before_spark_started_another_takes_no_place_from_that_one(
    roster: Roster, clock: Clock
) -> None:
    roster.register(registration("started again", task=12))
    assert not roster.register(registration("gone", task=5)).accepted, "its registration was on its way for long"
    assert roster.sweep() == []
    clock.now_s += SILENCE_S
    assert roster.register(registration("not gone", task=5)).accepted, "and the other one is"


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


def test_an_agent_that_may_have_begun_a_trainer_or_ended_one_is_not_quiet_until_it_is_heard(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", SPEC)])
    assert roster.heartbeat(beat("a")).order is Order.START
    roster.stop_trainers()
    assert not roster.is_quiet(), (
        "its trainer may be starting: an attempt that began now would lose it to that one's end"
    )
    assert roster.heartbeat(beat("a", SPEC)).order is Order.STOP
    roster.trainer_exited(exited("a"))
    assert not roster.is_quiet(), "it says next where another trainer may begin"
    roster.heartbeat(beat("a", address="h:2"))
    assert roster.is_quiet()


SUCCESSOR = trainer_spec(incarnation=1)


def test_an_agent_runs_another_trainer_of_the_same_attempt_and_what_it_said_of_the_first_comes_late(
    roster: Roster,
) -> None:
    roster.register(registration("a"))
    roster.start([("a", SPEC)])
    roster.heartbeat(beat("a", SPEC))
    roster.trainer_exited(exited("a"))
    late = beat("a", SPEC)
    assert roster.heartbeat(beat("a", address="h:2")).order is Order.WAIT
    assert [agent.is_free for agent in roster.here()] == [True]

    roster.start([("a", SUCCESSOR)])
    orders = roster.heartbeat(beat("a", address="h:2"))
    assert (orders.order, orders.trainer) == (Order.START, SUCCESSOR)
    assert roster.heartbeat(late).order is Order.WAIT
    roster.trainer_exited(exited("a"))
    assert roster.heartbeat(beat("a", SUCCESSOR)).order is Order.WAIT
    assert states(roster) == [AgentState.BUSY]

    roster.trainer_exited(exited("a", SUCCESSOR))
    roster.heartbeat(beat("a"))
    assert [agent.is_free for agent in roster.here()] == [True]


def test_an_agent_goes_from_node_to_node_and_comes_back_to_a_number_that_it_had(roster: Roster) -> None:
    """The number of an incarnation counts the trainers of a node, not those of an agent."""
    roster.register(registration("a"))
    other = NodeId(role=Role.WORKER, index=1)
    for spec in (trainer_spec(node=other, incarnation=1), SPEC, SUCCESSOR, trainer_spec(node=other, incarnation=2)):
        roster.start([("a", spec)])
        assert roster.heartbeat(beat("a")).trainer == spec
        assert roster.heartbeat(beat("a", spec)).order is Order.WAIT
        assert not roster.is_quiet()
        roster.trainer_exited(exited("a", spec))
        roster.heartbeat(beat("a"))
        assert roster.is_quiet()


def test_an_agent_that_still_runs_the_trainer_before_is_told_to_end_it(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", SUCCESSOR)])

    assert roster.heartbeat(beat("a", SPEC)).order is Order.STOP


def test_one_trainer_is_stopped_and_the_others_are_not(roster: Roster) -> None:
    other = trainer_spec(node=NodeId(role=Role.WORKER, index=1))
    for i, (agent, spec) in enumerate((("a", SPEC), ("b", other))):
        roster.register(registration(agent, partition=i))
        roster.start([(agent, spec)])
        roster.heartbeat(beat(agent, spec))

    roster.stop_trainer("a", SPEC.trainer)
    roster.stop_trainer("b", SPEC.trainer)

    assert roster.heartbeat(beat("a", SPEC)).order is Order.STOP
    assert roster.heartbeat(beat("b", other)).order is Order.WAIT
    roster.trainer_exited(exited("a"))
    roster.heartbeat(beat("a"))
    roster.start([("a", SUCCESSOR)])
    roster.stop_trainer("a", SPEC.trainer)
    assert roster.heartbeat(beat("a")).trainer == SUCCESSOR, "the one that has followed is another"


def test_a_trainer_that_is_lost_before_its_agent_has_begun_it_is_not_begun(roster: Roster) -> None:
    roster.register(registration("a"))
    roster.start([("a", SPEC)])

    roster.stop_trainer("a", SPEC.trainer)

    assert roster.heartbeat(beat("a")).order is Order.WAIT
    assert roster.is_quiet()
