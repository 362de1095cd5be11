"""The gang between its site and its attempts: when it has come, what it does when nodes fall silent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, WatchedStorage, pretend_config

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.restart import Why
from sparktf.driver.gang.gang import late_spares
from sparktf.driver.gang.reserved import Need, Next, gathered, needed, stopped
from sparktf.driver.run import Run
from sparktf.errors import LifecycleError, NotStoredError, ReservationError
from sparktf.results.result import Application
from sparktf.storage.base import Storage

NEED = Need(wanted=3, least=2, spares=1, deadline_s=100.0)


@pytest.mark.parametrize(
    ("idle", "enough_since_s", "now_s", "then"),
    [
        (2, None, 99.9, Next.WAIT),
        (3, 50.0, 50.0, Next.WAIT),  # a spare may be nearer to the data
        (4, 50.0, 50.0, Next.GO),
        (3, 50.0, 64.9, Next.WAIT),
        (3, 50.0, 65.0, Next.GO),
        (2, 50.0, 70.0, Next.WAIT),  # one is lost again
        (3, 95.0, 100.0, Next.GO),  # nobody waits for spares beyond the time
        (2, None, 100.0, Next.GO),
        (1, None, 100.0, Next.GIVE_UP),
    ],
)
def test_a_gang_waits_until_it_is_whole_then_for_its_spares_and_takes_fewer_at_the_end(
    idle: int, enough_since_s: float | None, now_s: float, then: Next
) -> None:
    assert gathered(NEED, idle, enough_since_s, now_s) is then


@pytest.mark.parametrize(
    ("why", "idle", "after_s", "then", "left_s"),
    [
        (Why.FIRST, 3, 299, Next.WAIT, 1),
        (Why.FIRST, 3, 300, Next.GIVE_UP, 0),
        (Why.LOST, 2, 29, Next.WAIT, 1),
        (Why.LOST, 2, 30, Next.GO, 0),
        (Why.LOST, 1, 30, Next.GIVE_UP, 0),
        (Why.TAKEN_BACK, 2, 29, Next.WAIT, 1),
        (Why.TAKEN_BACK, 2, 30, Next.GO, 270),
        (Why.TAKEN_BACK, 1, 31, Next.WAIT, 269),
        (Why.TAKEN_BACK, 1, 299, Next.WAIT, 1),
        (Why.TAKEN_BACK, 2, 299, Next.GO, 1),
        (Why.TAKEN_BACK, 1, 300, Next.GIVE_UP, 0),
    ],
)
def test_what_was_taken_back_is_waited_for_as_long_as_the_first_nodes_unless_fewer_are_enough(
    why: Why, idle: int, after_s: float, then: Next, left_s: float
) -> None:
    need = needed(4, 2, 0, TimeoutsConfig(), why, 1000.0)
    assert gathered(need, idle, None, 1000.0 + after_s) is then
    assert need.left_s(1000.0 + after_s) == left_s


@pytest.mark.parametrize(
    ("chosen", "here", "free", "late"),
    [
        (set(), {0, 1, 2}, {2}, set()),  # there was no choice
        ({0, 2}, {0, 1, 2}, {1}, {1}),
        ({0, 2}, {0, 1, 2}, {0, 1, 2}, {1}),  # between two attempts
        ({0, 2}, {0, 1, 2}, set(), set()),  # it has taken somebody's place
        ({0, 2}, {0, 1}, {1}, set()),  # it may have to
    ],
)
def test_spares_that_come_late_go_home_unless_they_are_needed(
    chosen: set[int], here: set[int], free: set[int], late: set[int]
) -> None:
    assert late_spares(chosen, here, free) == late


def test_trainers_are_waited_for_until_none_runs_or_the_time_is_up() -> None:
    assert stopped(quiet=True, deadline_s=10.0, now_s=99.0) is Next.GO
    assert stopped(quiet=False, deadline_s=10.0, now_s=10.0) is Next.WAIT
    assert stopped(quiet=False, deadline_s=10.0, now_s=10.1) is Next.GIVE_UP


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendDriver:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return pretended(tmp_path)


def pretended(folder: Path, storage: Storage | None = None) -> PretendDriver:
    lake = write_lake(folder / "lake", [20])
    config = pretend_config(lake, folder / "runs", timeouts={"reserve": 10, "replace": 30})
    return PretendDriver(Application("app"), config, plan_lake(lake), storage)


def test_nobody_who_touches_the_storage_makes_nodes_wait_for_it(tmp_path: Path) -> None:
    held = []

    def before(what: str, path: str) -> None:
        if driver.gang.roster.changed._is_owned():  # type: ignore[attr-defined]
            held.append(f"{what} {path}")

    driver = pretended(tmp_path, WatchedStorage(before))
    driver.failures = 1
    assert len(driver.train().attempts) == 2
    assert not held


def test_a_gang_that_is_whole_begins_although_its_spares_have_not_come_by_the_end_of_the_time(
    driver: PretendDriver,
) -> None:
    driver.site.spares = 1
    assert driver.train().steps == 20


def test_a_spare_that_comes_when_training_has_begun_is_sent_home_and_its_executor_given_back(
    driver: PretendDriver,
) -> None:
    driver.site.spares, driver.site.spare_is_late = 1, True
    assert driver.train().steps == 20
    assert driver.site.let_gone == ["late"]
    assert [agent.id for agent in driver.gang.roster.here()] == ["a"]


def test_a_node_that_freezes_while_it_stops_is_noted_under_the_lock(
    driver: PretendDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, held = Attempt.agent_lost, []

    def noted(attempt: Attempt, *args: Any) -> None:
        held.append(driver.gang.roster.changed._is_owned())  # type: ignore[attr-defined]
        lost(attempt, *args)

    monkeypatch.setattr(Attempt, "agent_lost", noted)
    driver.failures, driver.freezes = 1, True
    with pytest.raises(ReservationError, match=r"0 of 1 nodes came within 30 s; missing: node 0 on nowhere"):
        driver.train()
    assert held == [True]


def test_no_attempt_begins_on_an_executor_that_is_gone(driver: PretendDriver) -> None:
    driver.site.removed["a"] = "it was removed"
    with pytest.raises(ReservationError, match=r"0 of 1 nodes came within"):
        driver.train()


def test_a_gang_that_is_closed_trains_no_more(driver: PretendDriver) -> None:
    assert driver.train().steps == 20
    driver.gang.close()
    driver.gang.close()
    with pytest.raises(LifecycleError, match="the gang is closed: it cannot take 'agents wanted'"):
        Run(driver.gang, driver.config, "again").execute()


def test_a_gang_suffices_for_as_many_nodes_as_it_has_and_for_any_before_it_has_some(
    driver: PretendDriver, tmp_path: Path
) -> None:
    two = pretend_config(tmp_path / "lake", tmp_path / "runs", cluster={"workers": 2})
    assert driver.gang.suffices(two)
    driver.train()
    assert driver.gang.suffices(driver.config)
    assert not driver.gang.suffices(two)


def test_one_that_has_failed_trains_again(driver: PretendDriver) -> None:
    driver.failures, driver.failure = 1, "NotStoredError"
    with pytest.raises(NotStoredError):
        driver.train()
    assert Run(driver.gang, driver.config, "again").execute().steps == 20
