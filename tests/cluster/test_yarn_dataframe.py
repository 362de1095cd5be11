"""A DataFrame over a table in HDFS: Spark computes it beside the blocks, and feeds the node of the same executor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster.click_run import ClickRun
from cluster.clicks import FILES, ROWS, click_job, put_clicks
from cluster.submission import SMALL_CONF

from minihadoop import MiniHadoop
from sparktf.result import NodeInput, RunResult

EPOCHS = 4


@pytest.fixture(scope="module")
def clicks(shared_cluster: MiniHadoop) -> str:
    with shared_cluster.inside():
        put_clicks(shared_cluster, "/lake/clicks")
    return "/lake/clicks"


class Fed:
    """A run, which rows it trained on, and what went over the cables of the hosts meanwhile."""

    def __init__(self, hadoop: MiniHadoop, folder: Path, lake: str, mode: str) -> None:
        hosts = [host.name for host in hadoop.config.workers]
        before = {host: hadoop.link_bytes(host) for host in hosts}
        sums = folder / "sums"
        sums.mkdir()
        job = click_job(
            lake,
            "/runs",
            model="click_model:checked",
            params={"sums": str(sums)},
            data={
                "mode": mode,
                "cache": "off",
                "rebalance": False,
                "inputs": {"x": [f"x{i}" for i in range(8)], "row": "row"},
            },
            train={"epochs": EPOCHS},
        )
        # One partition for each file, so that every partition has a host of its own.
        # On a machine that all hosts share, a host may take long to compute what lies on it.
        conf = {"spark.sql.files.maxPartitionBytes": "2m", "spark.locality.wait": "60s"}
        job["submit"] = {"executor_cores": 2, "conf": {**SMALL_CONF, **conf}}
        with ClickRun(hadoop, folder, job, run_id=mode) as run:
            assert run.wait(within_s=400) == 0, run.output()
        self.output = run.output()
        self.sent = sum((hadoop.link_bytes(host) - before[host]).sent for host in hosts)
        self.result: RunResult = run.result(mode)
        told = [json.loads(path.read_text()) for path in sums.glob("*.json")]
        self.rows = sum(one["rows"] for one in told)
        self.checksum = sum(one["sum"] for one in told) % 2**64

    @property
    def inputs(self) -> list[NodeInput]:
        return [node.input for node in self.result.attempts[0].nodes]

    def fed(self, way: str) -> int:
        """Returns the rows that came one way."""
        return sum(given.rows.get(way, 0) for given in self.inputs)


@pytest.mark.timeout(900)
def test_spark_feeds_beside_the_blocks_the_rows_that_trainers_read_themselves(
    hadoop: MiniHadoop, clicks: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spark = Fed(hadoop, tmp_path_factory.mktemp("spark"), clicks, "spark")
    assert "data: read through Spark, data.mode: spark asks for it" in spark.output
    assert [(e.planned, e.fed, e.trained) for e in spark.result.rows] == [(ROWS, ROWS, ROWS)] * EPOCHS
    assert spark.rows == EPOCHS * ROWS
    nbytes = sum(given.nbytes for given in spark.inputs)
    assert nbytes > 70e6 * EPOCHS
    assert sum(given.local_nbytes for given in spark.inputs) >= 0.9 * nbytes
    assert spark.fed("unix") >= 0.9 * EPOCHS * ROWS
    assert spark.sent <= 0.1 * nbytes, f"{FILES} files; {spark.output}"

    direct = Fed(hadoop, tmp_path_factory.mktemp("direct"), clicks, "direct")
    assert direct.fed("direct") == EPOCHS * ROWS
    assert (spark.rows, spark.checksum) == (direct.rows, direct.checksum)
