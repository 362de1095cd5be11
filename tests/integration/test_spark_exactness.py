"""The same weights wherever the trainers run, with a worker that runs dry.

tests/trainer has the whole matrix, and tests/cluster/test_yarn_locality the weights of executors and local Spark.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.rows import job, write_rows
from integration.weights import Weights, weights_of

ROWS = (64, 64, 23)
BATCH = 128
EPOCHS = 3
RATE = 0.05


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, each a shuffle block: of two workers, one gets 64 + 23 rows, the other 64."""
    return write_rows(tmp_path_factory.mktemp("uneven") / "lake", ROWS)


@pytest.fixture(scope="module")
def expected(lake: Path) -> Weights:
    """What plain gradient descent over the same updates comes to."""
    table = pq.read_table(lake)
    x = np.stack([table.column(name).to_numpy() for name in ("a", "b")] + [np.ones(sum(ROWS))], axis=1)
    y = table.column("y").to_numpy()
    weights = np.array([1.0, 1.0, 0.0])
    for _ in range(EPOCHS):
        for rows in (slice(0, BATCH), slice(BATCH, None)):
            weights -= RATE * 2 * x[rows].T @ (x[rows] @ weights - y[rows]) / len(y[rows])
    return weights


def trained(application: Application, lake: Path, strategy: str, workers: int) -> Weights:
    """Returns kernel and bias of a model that a run has exported."""
    config = job(
        lake,
        application.sandbox.runs,
        "cases.watched:build",
        name=f"exact-{strategy}",
        cluster={"strategy": strategy, "workers": workers},
        train={"epochs": EPOCHS, "batch_size": BATCH},
    )
    config["data"] |= {"shuffle": False, "rebalance": False, "shuffle_rows": 1}
    outcome = application.train(config, "r")
    assert outcome.done.steps == 2 * EPOCHS
    return weights_of(Path(outcome.done.model))


@pytest.mark.more(
    "integration/test_spark_exactness.py::test_two_workers_on_local_spark_come_to_the_same_weights",
    "trainer/test_exactness.py::test_weights_are_those_of_one_process",
)
def test_one_process_comes_to_the_weights_of_plain_gradient_descent(
    local: Application, lake: Path, expected: Weights
) -> None:
    np.testing.assert_allclose(trained(local, lake, "single", 1), expected, rtol=0, atol=1e-5)


def test_two_workers_on_local_spark_come_to_the_same_weights(local: Application, lake: Path, expected: Weights) -> None:
    weights = trained(local, lake, "multi_worker_mirrored", 2)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-5)
