"""A driver that stood still has heard nobody: what it counts of that time as silence, and what becomes of its nodes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, SetClock, WatchedStorage, pretend_config

from sparktf.clock import ListeningClock
from sparktf.knobs import KNOBS
from sparktf.results.result import Application

ROWS = 20


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def test_it_tells_the_time_as_long_as_it_is_looked_at(clock: SetClock) -> None:
    listening = ListeningClock(clock)
    for look in range(1, 50):
        clock.set_s = look * KNOBS.listens_s
        assert listening.now_s() == pytest.approx(clock.set_s)


def test_of_a_time_at_which_nobody_looked_it_counts_no_more_than_of_one_in_which_somebody_did(clock: SetClock) -> None:
    listening = ListeningClock(clock)
    for pause in range(1, 4):
        clock.set_s += 1000.0
        assert listening.now_s() == pytest.approx(pause * KNOBS.listens_s)
        assert listening.now_s() == pytest.approx(pause * KNOBS.listens_s), "two looks at one time"
    clock.set_s += KNOBS.listens_s / 2
    assert listening.now_s() == pytest.approx(3.5 * KNOBS.listens_s), "it goes on as before"


def test_a_driver_that_stood_still_loses_none_of_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    lake = write_lake(tmp_path / "lake", [ROWS])
    config = pretend_config(lake, tmp_path / "runs", train={"batch_size": 8, "max_attempts": 1})
    stands: list[str] = []

    def stand_still(what: str, path: str) -> None:
        if what == "checksum":  # a checkpoint is committed, and all nodes are at work
            stands.append(path)
            driver.site.clock.advance(1000.0, asleep=True)

    driver = PretendDriver(Application("app"), config, plan_lake(lake), WatchedStorage(stand_still))
    result = driver.train()
    assert stands
    assert [(attempt.losses, attempt.failures) for attempt in result.attempts] == [((), ())]
