"""Heartbeats: how often, for which gang, and that nodes do as they are told."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from lakes import lake_config, plan_lake, write_lake
from specs import trainer_spec

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.saves import Start
from sparktf.driver.gang.handlers import Dispatcher
from sparktf.driver.gang.roster import Roster
from sparktf.driver.lifecycle import TrainerState
from sparktf.wire.beats import SMALL, Beats, beats
from sparktf.wire.control import Action, AgentHeartbeat, Heartbeat, Order, Progress, Registration
from sparktf.wire.sender import TrainerKey

SPEC = trainer_spec()
NODE = SPEC.node


@pytest.mark.parametrize(("nodes", "waiting_s"), [(1, 0.1), (2, 0.1), (10, 0.2), (16, 0.32)])
def test_a_small_gang_is_heard_every_half_second_and_let_go_as_soon_as_it_may(nodes: int, waiting_s: float) -> None:
    rhythm = beats(nodes, heartbeat_s=15.0, driver_lost_s=60.0)
    assert rhythm == Beats(0.5, rhythm.vouched_s, waiting_s, 15.0)
    assert 0.5 <= rhythm.vouched_s <= 1.0


def test_who_knows_of_no_gang_takes_it_for_a_small_one() -> None:
    assert beats(2, heartbeat_s=15.0, driver_lost_s=60.0) == SMALL


@pytest.mark.parametrize("nodes", [17, 100, 250, 999, 1_000])
def test_heartbeats_of_a_gang_of_any_size_take_a_twentieth_of_a_core(nodes: int) -> None:
    steady_s, vouched_s, waiting_s, silence_s = beats(nodes, heartbeat_s=15.0, driver_lost_s=60.0)
    assert nodes * (1 / steady_s + 1 / vouched_s) * 1e-3 <= 0.05 + 1e-9
    assert vouched_s + steady_s <= silence_s
    assert silence_s >= max(3 * steady_s, 15.0)
    assert min(nodes * 0.02, 0.5) <= waiting_s <= max(steady_s / 8, 0.5)


def test_a_driver_is_asked_twice_before_it_counts_as_lost_whatever_that_costs() -> None:
    assert beats(100_000, heartbeat_s=15.0, driver_lost_s=60.0) == Beats(30.0, 60.0, 3.75, 90.0)


RHYTHM = Beats(14.0, 28.0, 1.75, 42.0)


def test_an_agent_is_heard_less_often_while_its_trainer_works_and_least_while_that_is_heard() -> None:
    roster = Roster(lambda: 0.0, RHYTHM.silence_s, rhythm=RHYTHM)
    roster.register(Registration(agent="a", partition=0, host="h", jvm="1@2", address="h:1", versions={}))

    numbers = itertools.count(1)

    def told(trainer: TrainerKey | None) -> tuple[Order, float]:
        orders = roster.heartbeat(AgentHeartbeat(agent="a", number=next(numbers), address="h:1", trainer=trainer))
        return orders.order, orders.beat_s

    assert told(None) == (Order.WAIT, 1.75)
    roster.start([("a", SPEC)])
    assert told(None) == (Order.START, 1.75)
    assert told(SPEC.trainer) == (Order.WAIT, 14.0)
    roster.vouch("a")
    assert told(SPEC.trainer) == (Order.WAIT, 28.0)
    assert told(SPEC.trainer) == (Order.WAIT, 14.0), "its trainer has fallen silent"
    roster.vouch("a")
    roster.stop_trainers()
    assert told(SPEC.trainer) == (Order.STOP, 1.75)


def test_an_agent_is_not_lost_while_its_trainer_is_heard_and_is_when_neither_is(tmp_path: Path) -> None:
    clock = [0.0]

    def now() -> float:
        return clock[0]

    roster = Roster(now, RHYTHM.silence_s, rhythm=RHYTHM)
    roster.register(Registration(agent="a", partition=0, host="h", jvm="1@2", address="h:1", versions={}))
    lake = write_lake(tmp_path, [3])
    one = Trainer(NODE, "a", "h", heard_s=0.0, moved_s=0.0, state=TrainerState.TRAINING)
    dispatcher = Dispatcher(roster)
    dispatcher.attempt = Attempt(1, lake_config(lake), plan_lake(lake), Start(), [one], now, now)
    trainer = dispatcher.handlers()[Action.HEARTBEAT]

    for clock[0] in (28.0, 56.0, 84.0):
        trainer.answer(Heartbeat(attempt=1, node=NODE, progress=Progress()))
        assert roster.sweep() == []
    clock[0] = 126.0
    assert roster.sweep() == []
    clock[0] = 126.1
    assert [lost.reason for lost in roster.sweep()] == ["silent for 42 s"]


@pytest.mark.parametrize(
    ("state", "beat_s"),
    [
        (TrainerState.LAUNCHED, 30.0),
        (TrainerState.READY, 30.0),
        (TrainerState.TRAINING, 30.0),
        (TrainerState.FINISHED, 3.75),
    ],
)
def test_a_trainer_is_heard_less_often_while_it_works(state: TrainerState, beat_s: float, tmp_path: Path) -> None:
    lake = write_lake(tmp_path, [3])
    config = lake_config(lake)
    config = config.model_copy(update={"cluster": config.cluster.model_copy(update={"workers": 1_000})})
    one = Trainer(NODE, "a", "h", heard_s=0.0, moved_s=0.0, state=state)
    attempt = Attempt(1, config, plan_lake(lake), Start(), [one], lambda: 0.0, lambda: 0.0)
    beat = Heartbeat(attempt=1, node=NODE, progress=Progress())
    assert attempt.heartbeat(beat).beat_s == pytest.approx(beat_s)


def test_a_trainer_of_a_large_gang_is_lost_when_it_has_missed_three_heartbeats(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, [3])
    config = lake_config(lake)
    config = config.model_copy(update={"cluster": config.cluster.model_copy(update={"workers": 1_000})})
    now_s = 0.0
    one = Trainer(NODE, "a", "h", heard_s=0.0, moved_s=0.0, state=TrainerState.TRAINING)
    attempt = Attempt(1, config, plan_lake(lake), Start(), [one], lambda: now_s, lambda: now_s)
    now_s = 89.9
    assert attempt.apply(attempt.outcome()) is Outcome.RUNNING
    now_s = 90.1
    attempt.apply(attempt.outcome())
    assert [record.message for record in attempt.failures] == ["worker 0 on h was silent for 90 s"]
