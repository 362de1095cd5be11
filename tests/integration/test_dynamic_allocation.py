"""Spark allocates executors as it likes: a gang keeps its own, gets others for lost ones, and gives all back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.application import Application
from integration.processes import executor_of, wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.watch import Watch

_ON = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
}
_EPOCHS = 30  # Long enough for a successor to start meanwhile, an update at a time
_EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.fixture(name="idle")
def _idle(sandbox: Sandbox) -> Iterator[Application]:
    """An application of up to three executors, which Spark takes away after five idle seconds."""
    application = Application(sandbox, "local-cluster[3,1,1024]", {**_ON, "spark.dynamicAllocation.maxExecutors": "3"})
    yield application
    assert not application.close()


def _await_executors(application: Application, count: int) -> None:
    def found() -> bool:
        return len(application.family.processes(_EXECUTOR)) == count

    wait_for(f"there are {count} executors", found, within_s=90)


def test_a_gang_keeps_its_executors_outlives_one_and_gives_all_back(
    idle: Application, rows: Path, watch: Watch
) -> None:
    too_many = idle.train(job(rows, idle.sandbox.runs, "cases.watched:build", cluster={"workers": 4}))
    assert too_many.error == "PreflightError"
    config = job(
        rows,
        idle.sandbox.runs,
        "cases.watched:build",
        params=watch.params(hold_at=6),
        train={"batch_size": 30, "epochs": _EPOCHS, "max_attempts": 1},
    )
    _await_executors(idle, 0)
    watch.hold()
    idle.begin(config, "r")
    first = watch.held(2)
    _await_executors(idle, 2)
    watch.hold_by_one()
    executor_of(first[1].pid).kill()
    watch.joined(*first)
    watch.release()
    result = idle.outcome().done
    (attempt,) = result.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 1"]
    assert [(epoch.trained, epoch.complete) for epoch in result.rows] == [(600, True)] * _EPOCHS
    _await_executors(idle, 0)
