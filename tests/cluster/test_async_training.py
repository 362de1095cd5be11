"""Asynchronous training on YARN: lake and run on HDFS, and each worker beside what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.click_run import ClickRun
from cluster.clicks import GROUPS_PER_FILE, ROWS_PER_GROUP, click_file, click_job

from minihadoop import MiniHadoop

FILES = 12
ROWS = FILES * GROUPS_PER_FILE * ROWS_PER_GROUP
HOSTS = ("host2", "host4")


@pytest.fixture(scope="module")
def lake(shared_cluster: MiniHadoop) -> Iterator[str]:
    """A lake whose files lie on one of two hosts each, as many on either."""
    with shared_cluster.inside():
        for number in range(FILES):
            path, host = f"/lake/on-two/part-{number:05d}.parquet", HOSTS[number % 2]
            shared_cluster.hdfs.put(path, click_file(number), replication=1, host=host)
            assert [block.hosts for block in shared_cluster.hdfs.block_locations(path)] == [(host,)]
    yield "/lake/on-two"
    with shared_cluster.inside():
        shared_cluster.hdfs.delete("/lake")


@pytest.mark.timeout(600)
def test_workers_read_beside_their_blocks_and_the_run_is_on_hdfs(hadoop: MiniHadoop, lake: str, tmp_path: Path) -> None:
    job = click_job(
        lake,
        "/runs",
        name="async",
        data={"shuffle_rows": ROWS_PER_GROUP},
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 1, "trainer_memory_mib": 1024},
        train={"batch_size": 4096},
    )
    with ClickRun(hadoop, tmp_path, job, run_id="r") as run:
        assert run.wait() == 0, run.output()
    assert "2 workers, 1 ps and a coordinator on " in run.output()
    result = run.result("r")
    assert [(rows.planned, rows.trained, rows.set_aside) for rows in result.rows] == [(ROWS, ROWS, 0)]
    (attempt,) = result.attempts
    assert not attempt.losses
    nodes = {node.node: node for node in attempt.nodes}
    workers = [nodes["worker 0"], nodes["worker 1"]]
    assert sorted(worker.host.partition(".")[0] for worker in workers) == list(HOSTS)
    assert nodes["chief 0"].nbytes == nodes["ps 0"].nbytes == 0
    # One of them has read all of its own before the other has, and then some of the other's.
    assert [worker for worker in workers if worker.local_nbytes == worker.nbytes > 0], run.output()
    assert run.steps()[-1] == result.steps
    assert {"model.keras", "saved_model"} <= set(hadoop.hdfs.names(f"{run.run_path}/model"))
