"""Spark ML on YARN: a pipeline is searched on executors, saved on HDFS, and loaded by another user."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster.submission import REPO, SMALL_CONF, Submission, plain_line

from minihadoop import MiniHadoop

EXECUTORS = {
    "spark.submit.deployMode": "client",
    "spark.driver.memory": "512m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "3",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "2600m",
    "spark.executorEnv.PYTHONPATH": str(REPO),
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    **SMALL_CONF,
}


def program(hadoop: MiniHadoop, folder: Path, master: str, *steps: str, user: str) -> dict[str, Any]:
    """Runs steps of `searched.py` as a user; returns what each of them returned."""
    folder.mkdir()
    submit = plain_line("tests/cluster/searched.py", EXECUTORS, master)
    settings = {
        "runs": f"/{folder.parent.name}/runs",
        "saved": f"/{folder.parent.name}/saved",
        "cluster": {"trainer_memory_mib": 1024},
    }
    environment = {"PYSPARK_PYTHON": sys.executable, "HADOOP_USER_NAME": user}
    with Submission(hadoop, folder, settings, *steps, program=submit, environment=environment) as submission:
        assert submission.wait() == 0, submission.output()
    lines = (line.partition(" ") for line in submission.output().splitlines())
    return {word: json.loads(rest) for word, _, rest in lines if word in steps}


@pytest.mark.more(
    "integration/test_spark_ml.py::test_a_cross_validated_pipeline_of_two_workers_predicts_the_same_where_somebody_else_loads_it",
)
@pytest.mark.timeout(600)
def test_a_pipeline_that_cross_validation_has_found_on_yarn_predicts_the_same_for_another_user(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    ours = f"/{tmp_path.name}"  # what other tests have made is not alice's to write to
    for folder in (ours, "/user/alice"):
        hadoop.hdfs.make_folder(folder, permission="777")
    found = program(hadoop, tmp_path / "alice", "yarn", "search", "predict", user="alice")
    worse, better = found["search"]
    assert better < 0.1 * worse
    label, prediction = np.transpose(found["predict"])
    assert np.mean((label - prediction) ** 2) < 0.05 * np.var(label)
    # The run that trained it is gone; bob may read what alice has saved, and nothing else of hers is asked for.
    assert hadoop.hdfs.delete(f"{ours}/runs")
    again = program(hadoop, tmp_path / "bob", "local[2]", "predict", user="bob")
    np.testing.assert_allclose(again["predict"], found["predict"], rtol=1e-6)
    hadoop.hdfs.delete(ours)
