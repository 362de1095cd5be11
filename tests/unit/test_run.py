"""One run from its plan to its result, on nodes that are pretended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, pretend_config

from sparktf.driver.result import Application

ROWS = 20


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendDriver:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr("sparktf.driver.outcome._SETTLE_S", 0.0)
    lake = write_lake(tmp_path / "lake", [ROWS])
    return PretendDriver(Application("app"), pretend_config(lake, tmp_path / "runs"), plan_lake(lake))


def test_the_books_that_nodes_write_to_are_read_under_the_lock(driver: PretendDriver) -> None:
    result = driver.train()
    assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(ROWS, ROWS, ROWS, True)]
    assert result.steps == 20


def test_a_lost_node_costs_an_attempt_that_goes_on_from_the_last_checkpoint(driver: PretendDriver) -> None:
    driver.failures = 1
    result = driver.train()
    assert [a.from_step for a in result.attempts] == [0, 10]
    assert result.rows_trained == ROWS
    assert (Path(result.model) / "weights").read_bytes() == b"model of app"
