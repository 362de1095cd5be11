"""A driver that stood still, as on a virtual machine that was paused: its nodes were well, and none of them is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.cases.guests import SIZES
from integration.processes import Family, wait_for
from integration.rows import job
from integration.test_tensorflowonspark import told
from integration.watch import Watch

ROWS = 600
SILENCE_S = 3.0
GUESTS_SILENCE_S = 15.0
"""What a program cannot set."""

SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 1}


def stop_driver(family: Family, for_s: float, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Has the driver stand still for so long, and for as long as something else takes before."""
    driver = family.driver()
    driver.suspend()
    meanwhile()
    time.sleep(for_s)
    driver.resume()


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"workers": 2}, id="lockstep"),
        pytest.param(SERVED, id="parameter_server", marks=pytest.mark.more),
    ],
)
def test_a_training_goes_on_without_a_loss(
    cluster: dict[str, Any], local: Application, rows: Path, watch: Watch
) -> None:
    config = job(
        rows,
        local.sandbox.runs,
        "cases.watched:build",
        name="stopped",
        params=watch.params(hold_at=2),
        cluster=cluster,
        train={"batch_size": 30, "max_attempts": 1},
        timeouts={"heartbeat": SILENCE_S, "driver_lost": 20 * SILENCE_S},
    )
    watch.hold()
    local.begin(config, f"r{len(cluster)}", own_gang=True)  # whose agents are heard as often as its trainers
    pids = [held.pid for held in watch.held(cluster["workers"])]
    begun = watch.ids(pids).total()

    def go_on() -> None:
        watch.release()
        if cluster != SERVED:  # whose workers ask the driver for rows
            wait_for("the gang goes on by itself", lambda: watch.ids(pids).total() > begun, within_s=60)

    stop_driver(local.family, SILENCE_S + 2.0, go_on)
    result = local.outcome().done
    (attempt,) = result.attempts
    assert (attempt.losses, attempt.failures, result.rows_trained) == ((), (), ROWS)


@pytest.mark.more(
    "integration/test_stopped_driver.py::test_a_training_goes_on_without_a_loss",
    "simulation/test_seeds.py::test_drivers_that_stand_still_while_all_nodes_are_well_lose_nothing",
)
def test_a_program_of_tensorflowonspark_goes_on(local: Application, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as beside:
        program = beside.submit(local.collect, "cases.guests:waiting", folder=str(tmp_path))
        wait_for("both nodes begin", lambda: len(list(tmp_path.glob("*.begun"))) == 2, within_s=120)
        stop_driver(local.family, GUESTS_SILENCE_S + 2.0)
        (tmp_path / "go").touch()
        program.result()
    assert Counter(row for node in told(tmp_path) for row in node) == dict.fromkeys(range(sum(SIZES)), 1)
