"""Until when a run trains, and how much time it leaves for what comes after."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pretend import PretendClock

from sparktf.config.job import JobConfig
from sparktf.config.train import TrainConfig
from sparktf.driver.run_time import RunTime
from sparktf.errors import ConfigError, TimeUpError
from sparktf.knobs import KNOBS
from sparktf.results.time_limit import TimeLimit, TimeOfDay, Took, is_time_up, no_time_left, reserve_s, time_limit

BERLIN = ZoneInfo("Europe/Berlin")


def wall_s(text: str, zone: dt.tzinfo = BERLIN) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("deadline", "now", "hours"),
    [
        ("06:00 Europe/Berlin", "2026-11-20T01:30", 4.5),
        ("06:00 Europe/Berlin", "2026-11-20T06:00", 24.0),
        ("06:00 Europe/Berlin", "2026-11-20T22:00", 8.0),
        ("6:00 UTC", "2026-11-20T01:00", 6.0),
        ("06:00 Asia/Kolkata", "2026-11-20T01:00", 0.5),
        ("06:00 Europe/Berlin", "2026-03-28T22:00", 7.0),  # clocks are put forward that night
        ("06:00 Europe/Berlin", "2026-10-24T22:00", 9.0),  # and back that one
        ("02:30 Europe/Berlin", "2026-03-29T01:00", 1.5),  # which is 3:30: there is no 2:30
        ("02:30 Europe/Berlin", "2026-10-25T01:00", 1.5),  # the first of two
    ],
)
def test_a_deadline_is_the_next_such_time_in_its_zone(deadline: str, now: str, hours: float) -> None:
    assert TimeOfDay.of(deadline).after(wall_s(now)) == wall_s(now) + 3600 * hours


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("06:00", "is not a time of day with a time zone: write 06:00 Europe/Berlin"),
        ("24:00 UTC", "is not a time of day with a time zone"),
        ("06:61 UTC", "is not a time of day with a time zone"),
        ("6 Uhr", "is not a time of day with a time zone"),
        ("06:00 Europe/Berlni", "Europe/Berlni is not a known time zone"),
        ("06:00 ../../etc/passwd", "is not a known time zone"),
        ("06:00 Europe", "Europe is not a known time zone"),
    ],
)
def test_what_is_no_time_of_day_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"deadline: .*{said}"):
        TrainConfig(deadline=text)


def test_of_two_limits_the_first_counts_and_both_count_from_the_run_s_start() -> None:
    train = TrainConfig.model_validate({"deadline": "06:00 Europe/Berlin", "max_seconds": "2h"})
    late, early = wall_s("2026-11-20T05:00"), wall_s("2026-11-20T01:00")
    first = time_limit(train, late, late + 600)
    assert first is not None
    assert (first.reason, first.said, first.left_s) == ("deadline", "train.deadline: 06:00 Europe/Berlin", 3000)
    second = time_limit(train, early, early + 600)
    assert second is not None
    assert (second.reason, second.said, second.left_s) == ("max_seconds", "train.max_seconds: 7200", 6600)
    over = time_limit(train, late, late + 7300)
    assert over is not None
    assert over.left_s == -3700, "the deadline of a run does not move to the next day while it runs"
    assert time_limit(TrainConfig(), early, early) is None


def test_time_is_up_when_another_call_would_run_into_the_reserve() -> None:
    took = Took(call_s=2.0)
    assert not is_time_up(12.0, 10.0, took)
    assert is_time_up(11.9, 10.0, took)
    assert is_time_up(-1.0, 0.0, Took())


def test_without_a_stated_reserve_it_grows_with_what_things_took() -> None:
    took = Took(call_s=1.0, evaluation_s=20.0, checkpoint_s=10.0)
    assert reserve_s(None, Took()) == KNOBS.publish_s
    assert reserve_s(None, took) == KNOBS.publish_s + 60.0
    assert reserve_s(5.0, took) == 5.0


def test_what_earlier_runs_took_is_left_from_the_first_epoch_on() -> None:
    before = Took(before_s=200.0)
    assert reserve_s(None, before) == 300.0
    assert reserve_s(None, Took(before_s=10.0)) == KNOBS.publish_s, "a quick night says little of this one"
    assert reserve_s(None, Took(evaluation_s=400.0, before_s=200.0)) == KNOBS.publish_s + 600.0
    assert reserve_s(5.0, before) == 5.0


@pytest.mark.parametrize("wrong", [{"max_seconds": 0}, {"max_seconds": "soon"}, {"reserve": -1}])
def test_lengths_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TrainConfig(**wrong)


def test_a_reserve_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="reserve has no effect without deadline or max_seconds: give one of them"):
        TrainConfig(reserve=60.0)


def test_an_evaluator_needs_a_stated_reserve() -> None:
    held_out = {"validation": {"fraction": 0.1}}
    job = {
        "name": "job",
        "model": "models:build",
        "data": {"path": "lake", "inputs": {"x": "x"}, "targets": {"y": "y"}, **held_out},
        "output": {"path": "runs"},
        "cluster": {"evaluator": True},
    }
    with pytest.raises(ConfigError, match=r"need train\.reserve with cluster\.evaluator: true"):
        JobConfig.model_validate({**job, "train": {"max_seconds": 60}})
    stated = JobConfig.model_validate({**job, "train": {"max_seconds": 60, "reserve": 20}})
    assert stated.train.ends_by_time


# --- what the driver asks ---


@pytest.mark.parametrize(
    ("left_s", "stated_s", "spent_s", "told"),
    [
        (100.0, None, {"prepare": 500.0}, None),
        (
            22.0,
            None,
            {"preflight": 0.2, "plan": 12.0, "prepare": 578.0},
            r"22 s are left, and 60 s are kept .* \(prepare took 578 s, plan took 12 s\): set a greater one$",
        ),
        (-172.0, 30.0, {}, "it was over 172 s ago: set a greater one$"),
        (22.0, 30.0, {}, "22 s are left, and 30 s are kept .*: set a greater one, or a lower train.reserve$"),
        (20.0, 10.0, {}, None),
    ],
)
def test_a_driver_says_what_the_time_went_to(
    left_s: float, stated_s: float | None, spent_s: dict[str, float], told: str | None
) -> None:
    limit = TimeLimit(reason="max_seconds", said="train.max_seconds: 600", left_s=left_s)
    found = no_time_left(limit, stated_s, spent_s)
    assert (found is None) == (told is None)
    assert told is None or re.search(f"^train.max_seconds: 600 leaves no time to train: {told}", found or "")


def test_a_deadline_that_leaves_no_time_says_what_else_can_be_done() -> None:
    limit = TimeLimit(reason="deadline", said="train.deadline: 06:00 UTC", left_s=-1.0)
    assert (no_time_left(limit, None, {}) or "").endswith(": set a later one, or submit the run earlier")


def test_what_is_committed_is_published_though_no_time_is_left() -> None:
    clock, committed, asked = PretendClock(), list[int](), []
    train = TrainConfig(max_seconds=60.0)
    time = RunTime(clock, train, lambda: asked.append("ending") or 0.0, lambda: committed)  # type: ignore[func-returns-value]
    clock.sleep(1.0)
    with pytest.raises(TimeUpError):
        time.go_on_to("reserve")
    committed.append(10)
    time.go_on_to("reserve")
    assert asked == ["ending"], "once"


def test_nothing_is_looked_for_where_there_is_no_limit() -> None:
    def never() -> Any:
        raise AssertionError

    RunTime(PretendClock(), TrainConfig(), never, never).go_on_to("reserve")
