"""DataFrames on YARN and HDFS: plain scans are read directly, and speculation brings no row twice."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from cluster.submission import REPO, SMALL_CONF, Submission
from integration.rows import job, write_rows
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


@pytest.mark.timeout(600)
def test_a_plain_scan_of_files_on_hdfs_is_read_directly(hadoop: MiniHadoop, watch: Watch, tmp_path: Path) -> None:
    for day, file in enumerate(sorted(write_rows(tmp_path / "lake", (300, 90, 210)).iterdir()), start=1):
        hadoop.hdfs.put(f"/lake/days/day={day}/{file.name}", file.read_bytes())
    sql = "select b, a, id as number, y from parquet.`/lake/days` where day > 1"
    data = {"sql": sql, "inputs": {"id": "number", "x": ["a", "b"]}}
    with submission(hadoop, tmp_path, watch, "scan", data=data) as run:
        assert run.wait(within_s=300) == 0, run.output()
    assert "data: read directly by the trainers, a plain scan of 2 Parquet files" in run.output()
    assert watch.ids(watch.pids()) == dict.fromkeys(range(301, 601), 1)
    result = run.result("r")
    assert [(e.planned, e.fed, e.trained) for e in result.rows] == [(300, 300, 300)]
    assert sum(node.input.rows.get("direct", 0) for node in result.attempts[0].nodes) == 300


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}


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


@pytest.mark.timeout(300)
def test_speculation_is_refused_where_second_agents_would_take_the_slots_of_feeders(
    hadoop: MiniHadoop, watch: Watch, tmp_path: Path
) -> None:
    params = {"attempts": str(tmp_path), "rows": ROWS}
    submit = {**SPECULATION, "spark.executor.cores": "2"}
    data = {"source": "cases.lagging:rows"}
    with submission(hadoop, tmp_path, watch, "refused", data=data, params=params, submit=submit) as run:
        assert run.wait(within_s=200) == 2, run.output()
    assert "set spark.executor.cores=3 or more (submit.executor_cores), or spark.speculation=false" in run.output()
