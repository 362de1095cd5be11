"""Asynchronous training on executors: a lost one costs no attempt, and what does not go under it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from integration.application import Application
from integration.gates import Gates
from integration.processes import executor_of
from integration.rows import job, write_rows
from integration.serving import predict

from sparktf import Verdict

SERVED = {"strategy": "parameter_server", "workers": 2, "ps": 1}
ROWS = 1200
BATCH = 25


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Gates]:
    made = Gates(tmp_path / "gates", every=2 * BATCH)
    yield made
    made.close()


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
        train={"epochs": 2, "batch_size": BATCH},
        timeouts={"heartbeat": 5},
    )
    config["data"] |= {"shuffle": False, "shuffle_rows": 1}  # each row group is a block, read in order
    cluster.begin(config, "r")

    held = gates.waiting(cluster.family, gates.first, 2)
    assert [one.name for one in held] == ["worker-0", "worker-1"]
    executors = [executor_of(trainer.pid) for trainer in cluster.family.trainers()]
    assert len(executors) == 4
    killed, other = sorted(held, key=lambda one: executors.count(executor_of(one.process.pid)))
    executor_of(killed.process.pid).kill()
    gates.open(gates.first)
    held = gates.waiting(cluster.family, gates.second, 2)
    assert [one.name for one in held] == sorted([other.name, f"{killed.name}.1"])
    gates.open(gates.second)

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
    assert f"{node} on {loss.host} lost its executor" in loss.message
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
        "use --master 'local[7]'; or lower cluster.workers or cluster.ps"
    )


def test_rows_that_spark_would_have_to_feed_are_refused(local: Application, rows: Path, tmp_path: Path) -> None:
    config = job(rows, tmp_path / "runs", "cases.watched:build", cluster=SERVED)
    del config["data"]["path"]
    outcome = local.train(config, frame="cases.frames:joined", rows=10, own_gang=True)
    assert (outcome.error, outcome.verdict) == ("ConfigError", Verdict.REFUSED)
    assert outcome.message.startswith("train(data=...) is read through Spark, ")
    assert "under cluster.strategy: parameter_server workers read Parquet files themselves" in outcome.message
