"""A gang on real executors that loses its workers again and again, each by another of its processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration.application import Application
from integration.counts import counts_of
from integration.many_kills import ROWS, assert_exact, lose_workers, sections
from integration.rows import job
from integration.watch import Watch

KILLS = int(os.environ.get("KILLS", "9"))


@pytest.mark.timeout(300 + 40 * KILLS)
@pytest.mark.more(
    "integration/test_spark_failures.py"
    "::test_a_gang_outlives_a_killed_trainer_a_killed_executor_and_a_frozen_executor_in_one_attempt",
    "trainer/test_regrouping.py::test_a_worker_may_be_lost_before_and_after_each_of_its_operations",
)
def test_a_gang_outlives_many_kills_of_trainers_agents_and_executors_in_one_attempt(
    cluster: Application, rows: Path, watch: Watch
) -> None:
    config = job(rows, cluster.sandbox.runs, "cases.watched:build_counting", name="many", **sections(watch, KILLS))
    watch.hold()
    cluster.begin(config, "r")
    lose_workers(watch, KILLS)
    result = cluster.outcome().done
    assert_exact(result, counts_of(result.model, ROWS + 1), KILLS)
    assert not cluster.family.trainers()
