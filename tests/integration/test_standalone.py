"""A standalone master with real daemons: the three feeds, and what is lost of it while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.application import Application
from integration.daemons import Daemons
from integration.processes import executor_of, wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.watch import Watch

ROWS = 600
EVERY, HOLD_AT = 4, 6  # of 20 updates
SCHEMA = "id bigint, a float, b float, y float"


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    """Three workers, one more than the nodes need."""
    sandbox = Sandbox(tmp_path_factory.mktemp("standalone") / "cluster")
    made = Daemons(sandbox, workers=3, cores=2, mib=1024)
    try:
        yield made
    finally:
        made.stop()
        left = sandbox.family.kill()
    assert not left, "executors end with their worker"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory, daemons: Daemons) -> Iterator[Application]:
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.cores.max": "4",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    application = Application(Sandbox(tmp_path_factory.mktemp("standalone") / "app"), daemons.url, settings)
    try:
        yield application
    finally:
        left = application.close()
    assert not left


def test_the_three_feeds_train_each_row_once(standalone: Application, rows: Path, tmp_path: Path) -> None:
    sources: dict[str, dict[str, Any]] = {
        "direct": {},
        "frame": {"path": None, "source": "cases.sources:frame"},
        "rdd": {"path": None, "source": "cases.sources:records", "rdd_schema": SCHEMA},
    }
    books = {name: Watch(tmp_path / name) for name in sources}
    configs = [
        job(
            rows,
            standalone.sandbox.runs,
            "cases.watched:build",
            name=name,
            params={**books[name].params(), "rows": ROWS},
            data=data,
        )
        for name, data in sources.items()
    ]
    for name, outcome in zip(sources, standalone.train_together(*configs), strict=True):
        [epoch] = outcome.done.rows
        assert (epoch.fed, epoch.trained, epoch.complete) == (ROWS, ROWS, True)
        assert books[name].ids(books[name].pids()) == dict.fromkeys(range(1, ROWS + 1), 1)
        said = "read directly by the trainers" if name == "direct" else "read through Spark"
        assert f"data: {said}" in outcome.output


def test_a_run_outlives_a_killed_executor_and_a_killed_worker(
    standalone: Application, daemons: Daemons, rows: Path, watch: Watch
) -> None:
    config = job(
        rows,
        standalone.sandbox.runs,
        "cases.watched:build",
        name="outlives",
        params=watch.params(hold_at=HOLD_AT),
        train={"batch_size": 30, "max_attempts": 3},
        cluster={"min_workers": 2},
        checkpoint={"every_steps": EVERY},
    )
    run = standalone.run(config, "r")
    watch.hold()
    standalone.begin(config, "r")
    first = watch.held(2)
    wait_for("a commit", lambda: EVERY in run.committed(), within_s=60)
    executor_of(first[1].pid).kill()
    second = watch.held(2, but=first)
    wait_for("a commit", lambda: 2 * EVERY in run.committed(), within_s=60)
    lost = executor_of(second[0].pid)
    worker = daemons.worker_of(lost)
    worker.kill()
    psutil.wait_procs([lost], timeout=60)
    watch.release()

    result = standalone.outcome().done
    assert [a.from_step for a in result.attempts] == [0, EVERY, 2 * EVERY]
    assert [a.workers for a in result.attempts] == [2] * 3
    causes = [a.root_cause.message if a.root_cause else "" for a in result.attempts]
    assert all("lost its agent: " in cause for cause in causes[:2])
    assert causes[2] == ""
    assert (result.steps, result.rows_trained) == (20, ROWS)
    attempts = [[held.pid for held in attempt] for attempt in (first, second)]
    trained = sum((watch.ids(pids, updates=EVERY) for pids in attempts), watch.ids(watch.pids()[4:]))
    assert trained == dict.fromkeys(range(1, ROWS + 1), 1)
