"""A standalone master with real daemons: the three feeds, and what is lost of it while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.application import Application
from integration.daemons import Daemons
from integration.processes import executor_of
from integration.rows import job
from integration.sandbox import Sandbox
from integration.watch import Watch

ROWS = 600
HOLD_AT = 6
EPOCHS = 30  # Long enough for a successor to start meanwhile, an update at a time
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


def test_a_gang_outlives_a_killed_worker_with_its_executor(
    standalone: Application, daemons: Daemons, rows: Path, watch: Watch
) -> None:
    config = job(
        rows,
        standalone.sandbox.runs,
        "cases.watched:build",
        name="outlives",
        params=watch.params(hold_at=HOLD_AT),
        train={"batch_size": 30, "epochs": EPOCHS, "max_attempts": 1},
        cluster={"min_workers": 2},
    )
    watch.hold()
    standalone.begin(config, "r")
    leader, first = watch.held(2)
    watch.hold_by_one()
    lost = executor_of(first.pid)
    daemons.worker_of(lost).kill()
    psutil.wait_procs([lost], timeout=60)
    watch.joined(leader, first)
    watch.release()

    result = standalone.outcome().done
    (attempt,) = result.attempts
    assert (attempt.workers, attempt.root_cause) == (2, None)
    assert [(loss.node, "lost its agent: " in loss.message) for loss in attempt.losses] == [("worker 1", True)]
    assert [(epoch.trained, epoch.complete) for epoch in result.rows] == [(ROWS, True)] * EPOCHS
