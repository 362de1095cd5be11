"""A small lake and its plan, for tests that play whole drivers again and again."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import plan_lake, write_lake

from sparktf.driver.plan.plan import Plan


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lake(tmp_path_factory.mktemp("lake"), [20])


@pytest.fixture(scope="module")
def plan(lake: Path) -> Plan:
    return plan_lake(lake)
