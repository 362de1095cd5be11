"""What the coordinator of asynchronous training does next, by where the training is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sparktf.trainer.parameter_server.async_loop import Tempo
from sparktf.trainer.parameter_server.dispatch import (
    IN_FLIGHT,
    Abandon,
    Await,
    End,
    EpochState,
    Pace,
    Rest,
    SaveNow,
    Send,
    decide,
    next_call_steps,
)

PACE = Pace(batch_size=10, call_steps=4, drain_s=5.0)


def course(**fields: Any) -> EpochState:
    """Returns an epoch with two workers, in which nothing is due."""
    usual: dict[str, Any] = {
        "rows_left": 10_000,
        "budgets": (),
        "late": 0,
        "workers": 2,
        "until_end": None,
        "until_save": None,
    }
    return EpochState(**{**usual, **fields})


def sent(at: EpochState) -> list[int]:
    """Returns the updates of all that is sent out until something has to come back."""
    found = []
    while isinstance(step := decide(at, PACE), Send):
        found.append(step.updates)
        at = at._replace(budgets=(*at.budgets, step.updates))
    return found


def test_each_worker_has_work_at_hand_and_no_more() -> None:
    assert sent(course()) == [4] * 2 * IN_FLIGHT
    assert sent(course(workers=1)) == [4] * IN_FLIGHT
    assert sent(course(workers=0)) == []


def test_towards_the_end_of_an_epoch_only_what_it_needs_is_under_way() -> None:
    assert sent(course(rows_left=95)) == [4, 4, 4]  # ten updates
    assert sent(course(rows_left=1)) == [4, 4]  # nobody knows who has the row


def test_the_last_update_is_never_passed() -> None:
    assert sum(sent(course(until_end=5))) == 5
    assert sum(sent(course(until_end=5, budgets=(2,)))) == 3
    assert sent(course(until_end=5, late=5)) == []


def test_what_is_left_before_a_limit_is_shared_by_the_workers() -> None:
    assert sent(course(until_end=6)) == [3, 2, 1]


def test_a_run_at_its_last_update_ends_once_all_is_back() -> None:
    assert decide(course(until_end=0, budgets=(1,)), PACE) == Rest()
    assert decide(course(until_end=0), PACE) == End()


def test_an_epoch_ends_once_all_rows_are_told_of_and_all_is_back() -> None:
    assert decide(course(rows_left=0, budgets=(4,)), PACE) == Rest()
    assert decide(course(rows_left=0), PACE) == End()


def test_an_end_comes_before_a_checkpoint() -> None:
    assert decide(course(rows_left=0, save=True), PACE) == End()


@pytest.mark.parametrize("due", [{"save": True}, {"until_save": 0}, {"until_save": -1}])
def test_a_checkpoint_that_is_due_waits_for_what_is_under_way(due: dict[str, Any]) -> None:
    assert decide(course(budgets=(4,), **due), PACE) == Rest()
    assert decide(course(**due), PACE) == SaveNow()


def test_what_workers_make_together_is_as_many_updates_for_each_of_them() -> None:
    assert sent(course(together=True, until_end=3)) == [3] * 2 * IN_FLIGHT
    assert sent(course(together=True, until_end=3, late=5, budgets=(3,) * 5)) == [3]
    assert sent(course(together=True, until_end=9, until_save=2)) == [2] * 2 * IN_FLIGHT


def test_a_checkpoint_by_steps_is_never_passed() -> None:
    assert sum(sent(course(until_save=7))) == 7
    assert decide(course(until_save=7, budgets=(4, 3)), PACE) == Rest()


@pytest.mark.parametrize("due", [{"save": True}, {"rows_left": 0}, {"until_save": 4}])
def test_what_does_not_come_back_is_given_up(due: dict[str, Any]) -> None:
    assert decide(course(budgets=(4,), rested_s=4.9, **due), PACE) == Rest()
    assert decide(course(budgets=(4,), rested_s=5.0, **due), PACE) == Abandon()


def test_a_frozen_worker_holds_up_no_checkpoint_by_steps() -> None:
    at = course(until_save=4, budgets=(4,), rested_s=5.0)
    assert decide(at, PACE) == Abandon()
    assert sum(sent(at._replace(budgets=(), late=4, rested_s=0.0))) == 4


def test_updates_that_may_still_come_count_before_the_last_one() -> None:
    assert decide(course(until_end=4, budgets=(), late=4), PACE) == Rest()


@pytest.mark.parametrize("seed", range(20))
def test_a_run_ends_at_its_very_last_update_whatever_comes_back(seed: int) -> None:
    draw = random.Random(seed)
    last, every = draw.randint(1, 200), draw.choice([None, 1, 7, 30])
    step, saved, rows = 0, 0, 10 * last + draw.randint(0, 500)
    under_way: list[int] = []
    while not isinstance(
        what := decide(
            course(
                rows_left=rows - 10 * step,
                budgets=tuple(under_way),
                until_end=last - step,
                until_save=None if every is None else saved + every - step,
            ),
            PACE,
        ),
        End,
    ):
        match what:
            case Send():
                assert what.updates > 0
                under_way.append(what.updates)
            case SaveNow():
                assert every is not None
                assert step == saved + every
                saved = step
            case Await() | Rest():
                budget = under_way.pop(draw.randrange(len(under_way)))
                step += draw.randint(0, budget)  # the rest of it was not to be had
            case Abandon():
                pytest.fail("nothing was late")
    assert step == last


def test_executions_take_about_the_time_they_are_meant_to() -> None:
    fast = next_call_steps(8, 64, steps=400, seconds=2.0, workers=2, call_s=0.5)
    assert fast == 32  # not the 50 that would take 0.5 s: it grows four times at most
    assert next_call_steps(32, 64, steps=400, seconds=2.0, workers=2, call_s=0.5) == 50
    assert next_call_steps(32, 16, steps=400, seconds=2.0, workers=2, call_s=0.5) == 16
    assert next_call_steps(4, 64, steps=1, seconds=9.0, workers=2, call_s=0.5) == 1
    assert next_call_steps(4, 64, steps=0, seconds=9.0, workers=0, call_s=0.5) == 1


def test_executions_have_grown_to_their_time_within_a_second_of_the_beginning() -> None:
    workers, steps_s, most = 2, 250.0, 256  # of each worker
    tempo, now_s = Tempo(most), 0.0
    tempo.begin(now_s)
    while tempo.call_steps < 125:
        size = tempo.call_steps
        for _ in range(workers):  # both end at the same time
            now_s += size / steps_s / workers
            tempo.add(size, now_s, took_s=size / steps_s, workers=workers)
        assert now_s < 1.0, f"they have {size} updates still"
    for _ in range(100):
        now_s += tempo.call_steps / steps_s / workers
        tempo.add(tempo.call_steps, now_s, took_s=tempo.call_steps / steps_s, workers=workers)
        assert 120 <= tempo.call_steps <= 130
