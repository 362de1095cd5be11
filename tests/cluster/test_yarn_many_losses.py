"""A gang on YARN that loses its workers again and again, each by another of its processes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from cluster.submission import REPO, SMALL_CONF, Submission
from integration.counts import counts_of
from integration.many_kills import ROWS, assert_exact, lose_workers, sections
from integration.rows import job, write_rows
from integration.watch import Watch

from minihadoop import MiniHadoop

KILLS = int(os.environ.get("KILLS", "6"))


@pytest.mark.timeout(400 + 40 * KILLS)
@pytest.mark.more(
    "integration/test_spark_failures.py"
    "::test_a_gang_outlives_a_killed_trainer_a_killed_executor_and_a_frozen_executor_in_one_attempt",
    "cluster/test_yarn_takeovers.py::test_a_preempted_executor_costs_no_attempt_and_the_other_one_goes_on",
)
def test_a_gang_on_yarn_outlives_many_kills_of_trainers_agents_and_executors_in_one_attempt(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    for file in write_rows(tmp_path / "rows").iterdir():
        hadoop.hdfs.put(f"/lake/lost/{file.name}", file.read_bytes())
    watch = Watch(tmp_path / "books")
    watch.hold()
    config = job("/lake/lost", "/runs", "cases.watched:build_counting", name="many", **sections(watch, KILLS))
    config["cluster"] |= {"trainer_memory_mib": 1024, "placement": "any"}
    config["submit"] = {
        "driver_memory_mib": 512,
        "executor_memory_mib": 512,
        "executor_cores": 1,
        "deploy_mode": "client",
        "conf": SMALL_CONF,
    }
    shutil.copytree(REPO / "tests/integration/cases", tmp_path / "cases")
    with Submission(hadoop, tmp_path, config, "--run-id", "r") as submission:
        lose_workers(watch, KILLS)
        assert submission.wait() == 0, submission.output()
        result = submission.result("r")
    (tmp_path / "model.keras").write_bytes(hadoop.hdfs.get("/runs/many/r/model/model.keras"))
    assert_exact(result, counts_of(str(tmp_path), ROWS + 1), KILLS)
