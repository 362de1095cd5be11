"""Asynchronous training on executors: a lost one costs no attempt, and what does not go under it is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from integration.application import Application
from integration.cases.rdds import SCHEMA
from integration.gates import Gates, Waiting
from integration.processes import executor_of, wait_for
from integration.rows import job, write_rows
from integration.sandbox import RunFolder
from integration.serving import predict

from sparktf import RunResult, Verdict
from sparktf.results.result import AttemptResult

SERVED = {"strategy": "parameter_server", "workers": 2, "ps": 1}
ROWS = 1200
BATCH = 25
SILENCE_S = 10
"""By which a killed executor is noticed. Nothing else is to be silent for so long, however busy the machine is."""


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Gates]:
    made = Gates(tmp_path / "gates", every=2 * BATCH)
    yield made
    made.close()


@pytest.fixture
def barrier(tmp_path: Path) -> Iterator[Gates]:
    """Gates of which every update comes to the first."""
    made = Gates(tmp_path / "barrier", every=1)
    yield made
    made.close()


@pytest.mark.more(
    "integration/test_spark_async.py::test_rows_are_trained_once_an_epoch_also_where_an_executor_is_killed_that_feeds_them",
    "trainer/test_scheduled_loop.py::test_rows_and_updates_are_exact_also_where_a_worker_is_lost_and_after_a_resume",
)
def test_training_goes_on_without_a_killed_executor_and_another_worker_joins(
    cluster: Application, tmp_path: Path, gates: Gates
) -> None:
    lake = write_rows(tmp_path / "lake", [ROWS])
    config = job(
        lake,
        cluster.sandbox.runs,
        "cases.gated:build",
        name="async",
        params=gates.params(),
        cluster=SERVED,
        train={"epochs": 2, "batch_size": BATCH, "steps_per_call": 8},
        timeouts={"heartbeat": SILENCE_S, "driver_lost": 2 * SILENCE_S},
    )
    config["data"] |= {"shuffle": False, "shuffle_rows": 1}  # each row group is a block, read in order
    cluster.begin(config, "r")

    held = gates.waiting(cluster.family, gates.first, 2)
    assert [one.name for one in held] == ["worker-0", "worker-1"]
    executors = [executor_of(trainer.pid) for trainer in cluster.family.trainers()]
    assert len(executors) == 4
    killed, other = sorted(held, key=lambda one: executors.count(executor_of(one.process.pid)))
    executor_of(killed.process.pid).kill()
    killed.process.wait(60)  # it may come to the second gate while it ends
    gates.first.open()
    held = gates.waiting(cluster.family, gates.second, 2)
    assert [one.name for one in held] == sorted([other.name, f"{killed.name}.1"])
    gates.second.open()

    result = cluster.outcome().done
    assert result.verdict is Verdict.DONE
    assert [(rows.planned, rows.trained + rows.set_aside, rows.complete) for rows in result.rows] == [
        (ROWS, ROWS, True)
    ] * 2
    assert result.rows_trained == 2 * ROWS
    (attempt,) = result.attempts
    (loss,) = attempt.losses
    node = killed.name.replace("-", " ")
    assert (loss.node, attempt.failures, attempt.root_cause) == (node, (), None)
    assert f"{node} on {loss.host} lost its agent: " in loss.message
    assert [warning for warning in result.warnings if loss.message in warning]
    exported = predict(Path(result.model), tmp_path, "cases.gated", id=np.arange(2), x=np.eye(2, dtype=np.float32))
    assert exported["y"].shape == (2, 1)
    assert not cluster.family.trainers()


def test_too_few_slots_for_all_roles_are_refused_by_their_settings(
    local: Application, rows: Path, tmp_path: Path
) -> None:
    config = job(rows, tmp_path / "runs", "cases.watched:build", cluster={**SERVED, "workers": 5})
    outcome = local.train(config, own_gang=True)
    assert (outcome.error, outcome.verdict) == ("PreflightError", Verdict.REFUSED)
    assert outcome.message == (
        "cluster.workers: 5, cluster.ps: 1 and a coordinator: 7 nodes need as many slots, but local[6] has 6: "
        "use --master 'local[7]', or 'local[8]' if Spark feeds the nodes, which takes one more slot; or lower "
        "cluster.workers or cluster.ps"
    )


def fed(
    application: Application, gates: Gates, name: str, model: str, data: dict[str, Any], **params: Any
) -> dict[str, Any]:
    """Returns the configuration of a run of two epochs whose rows Spark feeds."""
    return job(
        Path(),
        application.sandbox.runs,
        model,
        name=name,
        params={**gates.params(), **params},
        cluster=SERVED,
        data={"path": None, "shuffle_rows": 50, **data},
        train={"epochs": 2, "batch_size": BATCH},
        timeouts={"heartbeat": SILENCE_S, "driver_lost": 2 * SILENCE_S},
    )


def check_books(run: RunFolder, done: RunResult, ids: Iterable[int], lost: Waiting) -> AttemptResult:
    """Checks that each row was trained once in each epoch, and what of it twice; returns the only attempt."""
    expected = Counter(dict.fromkeys(ids, 2))
    accounts = [(rows.planned, rows.fed, rows.trained, rows.complete) for rows in done.rows]
    assert accounts == [(len(expected),) * 3 + (True,)] * 2
    first, second = (rows.replayed for rows in done.rows)
    assert (first > 0, second) == (True, 0)
    updates = updates_of(run)
    assert set(updates) == set(expected)
    assert not expected - updates
    assert (updates - expected).total() <= first
    (attempt,) = done.attempts
    assert [loss.node for loss in attempt.losses] == [lost.name.replace("-", " ")]
    return attempt


@pytest.mark.more(
    "integration/test_spark_async.py::test_rows_are_trained_once_an_epoch_also_where_an_executor_is_killed_that_feeds_them",
    "trainer/test_scheduled_loop.py::test_rows_and_updates_are_exact_also_where_a_worker_is_lost_and_after_a_resume",
)
def test_rows_of_an_rdd_are_trained_once_an_epoch_in_a_loop_of_the_users_own_also_those_of_a_killed_worker(
    cluster: Application, barrier: Gates
) -> None:
    sizes = [400, 0, 130, 0, 61, 9]
    config = fed(cluster, barrier, "fed-rdd", "cases.gated:train", {"rdd_schema": SCHEMA})
    cluster.begin(config, "r", "cases.rdds:rows", sizes=sizes, kind="tuples")
    killed, _ = barrier.waiting(cluster.family, barrier.first, 2)
    killed.process.kill()
    for gate in (barrier.first, barrier.second):
        gate.open()

    check_books(cluster.run(config, "r"), cluster.outcome().done, range(1, 601), killed)
    assert not cluster.family.trainers()


def test_rows_are_trained_once_an_epoch_also_where_an_executor_is_killed_that_feeds_them(
    cluster: Application, barrier: Gates, tmp_path: Path
) -> None:
    feeding = tmp_path / "feeding"
    feeding.mkdir()
    (feeding / "wait").touch()
    data = {"validation": {"where": "id % 7 = 0"}}
    config = fed(cluster, barrier, "fed-frame", "cases.gated:build", data, flavour="tf_keras")
    # The rest of the first four partitions is there before a feeder waits in each of the last two.
    cluster.begin(
        config, "r", "cases.frames:waiting", sizes=[100] * 6, every=100, at=50, after=400, folder=str(feeding)
    )
    held = barrier.waiting(cluster.family, barrier.first, 2)
    executors = [executor_of(trainer.pid) for trainer in cluster.family.trainers()]
    killed = min(held, key=lambda one: executors.count(executor_of(one.process.pid)))
    executor = executor_of(killed.process.pid)

    def feeders() -> list[psutil.Process]:
        return [executor_of(int(path.name.partition("-")[2])) for path in feeding.glob("pid-*")]

    wait_for("a feeder on the executor that is killed", lambda: executor in feeders(), within_s=60)
    executor.kill()
    killed.process.wait(60)  # not to train what it holds while it ends: its log is gone
    (feeding / "wait").unlink()
    barrier.first.open()
    (other,) = (one.name for one in held if one is not killed)
    joined = barrier.waiting(cluster.family, barrier.second, 2)
    assert [one.name for one in joined] == sorted([other, f"{killed.name}.1"])
    barrier.second.open()

    done = cluster.outcome().done
    attempt = check_books(cluster.run(config, "r"), done, (i for i in range(1, 601) if i % 7), killed)
    (loss,) = attempt.losses
    assert f"on {loss.host} lost its agent: " in loss.message
    assert [warning for warning in done.warnings if loss.message in warning]
    assert (attempt.failures, attempt.root_cause) == ((), None)
    assert [(one.epoch, one.rows) for one in done.validation] == [(0, 85), (1, 85)]
    assert not cluster.family.trainers()


def updates_of(run: RunFolder) -> Counter[int]:
    """Returns how often each row was in an update, as the logs of the workers tell."""
    logs = [path.read_text() for path in (run.path / "logs").glob("*-worker-*.log")]
    assert logs
    return Counter(
        int(i) for log in logs for ids in re.findall(r"^update of \[([\d ]+)\]$", log, re.M) for i in ids.split()
    )
