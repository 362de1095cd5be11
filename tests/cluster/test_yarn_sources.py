"""A DataFrame on YARN, which runs a copy of what is slow on another host: no row comes twice."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from cluster.submission import REPO, SMALL_CONF, Submission
from integration.rows import job
from integration.watch import Watch

from minihadoop import MiniHadoop

ROWS = 9000


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path / "books")


def submission(hadoop: MiniHadoop, folder: Path, watch: Watch, name: str, **sections: Any) -> Submission:
    """Submits a run of two workers whose model keeps books; their containers are so large that no host has two."""
    shutil.copytree(REPO / "tests/integration/cases", folder / "cases")
    config = job(
        Path(),
        Path("/runs"),
        "cases.watched:build",
        name=name,
        **{
            "cluster": {"workers": 2, "trainer_memory_mib": 2048},
            "timeouts": {"reserve": 120, "start": 120},
            **sections,
            "params": {**watch.params(), **sections.get("params", {})},
            "data": {"path": None, **sections["data"]},
            "submit": {
                "driver_memory_mib": 512,
                "executor_memory_mib": 512,
                "executor_cores": 3,
                "conf": {**SMALL_CONF, **sections.get("submit", {})},
            },
        },
    )
    return Submission(hadoop, folder, config, "--run-id", "r")


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}


@pytest.mark.more(
    "unit/test_staging.py::TestSplits::test_of_two_feeders_of_a_split_the_first_that_ends_wins",
    "integration/test_rdd_feed.py::test_a_feeder_on_executors_that_fails_midway_is_tried_again_and_rows_are_read_by_name",
)
@pytest.mark.timeout(600)
def test_a_speculative_copy_of_a_slow_feeder_brings_no_row_twice(
    hadoop: MiniHadoop, watch: Watch, tmp_path: Path
) -> None:
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    params = {"attempts": str(attempts), "rows": ROWS}
    data = {"source": "cases.lagging:rows", "shuffle_rows": 500}
    with submission(hadoop, tmp_path, watch, "copies", data=data, params=params, submit=SPECULATION) as run:
        assert run.wait(within_s=400) == 0, run.output()
    hosts = [[path.name.split("-", 2)[2] for path in attempts.glob(f"1-{attempt}-*")] for attempt in (0, 1)]
    assert [len(found) for found in hosts] == [1, 1]
    assert hosts[0] != hosts[1]
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, ROWS + 1), 1)
    result = run.result("r")
    assert len(result.attempts) == 1
    assert [(e.planned, e.fed, e.trained) for e in result.rows] == [(ROWS, ROWS, ROWS)]
