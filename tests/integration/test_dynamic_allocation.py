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
_EVERY = 4
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
        train={"batch_size": 30, "max_attempts": 2},
        checkpoint={"every_steps": _EVERY},
    )
    run = idle.run(config, "r")
    _await_executors(idle, 0)
    watch.hold()
    idle.begin(config, "r")
    first = watch.held(2)
    wait_for("a commit", lambda: _EVERY in run.committed(), within_s=60)
    _await_executors(idle, 2)
    executor_of(first[1].pid).kill()
    second = watch.held(2, but=first)
    assert {trainer.pid for trainer in second}.isdisjoint(trainer.pid for trainer in first)
    watch.release()
    result = idle.outcome().done
    assert [attempt.from_step for attempt in result.attempts] == [0, _EVERY]
    trained = watch.ids([trainer.pid for trainer in first], updates=_EVERY) + watch.ids([t.pid for t in second])
    assert {i: n for i, n in trained.items() if i} == dict.fromkeys(range(1, 601), 1)
    _await_executors(idle, 0)
