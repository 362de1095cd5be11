"""Asynchronous training on YARN: lake and run on HDFS, and each worker beside what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from cluster.click_run import ClickRun
from cluster.clicks import GROUPS_PER_FILE, ROWS_PER_GROUP, click_file, click_job, put_clicks
from cluster.containers import containers_of
from integration.gates import Pipe

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for

FILES = 12
ROWS = FILES * GROUPS_PER_FILE * ROWS_PER_GROUP
HOSTS = ("host2", "host4")
LEASE_LITTLE = {"batch_size": 4096, "steps_per_call": 2}
"""A worker leases as many rows ahead as one call may train: by default all there are here, before another one comes."""


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
    gate = Pipe(tmp_path / "gate")
    job = click_job(
        lake,
        "/runs",
        name="async",
        model="click_model:gated",
        params={"gate": str(gate.path)},
        data={"shuffle_rows": ROWS_PER_GROUP},
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 1, "trainer_memory_mib": 1024},
        train=LEASE_LITTLE,
    )
    with closing(gate), ClickRun(hadoop, tmp_path, job, run_id="r") as run:
        run.wait_for_line(r"epoch 1/1 ")
        hosts_at_gate(run.application().id)
        gate.open()
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


@pytest.mark.more(
    "trainer/test_joining.py::test_a_call_to_a_lost_worker_that_never_ends_fails_with_its_name_and_what_its_host_says_now",
    "integration/test_spark_async.py::test_rows_are_trained_once_an_epoch_also_where_an_executor_is_killed_that_feeds_them",
)
@pytest.mark.timeout(600)
def test_a_worker_whose_host_is_cut_off_in_an_update_is_the_cause_and_training_goes_on_without_it(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    put_clicks(hadoop, "/lake/few", files=3)
    gate = Pipe(tmp_path / "gate")
    # A host has room for one executor of this size: no two nodes are on the one that is cut off.
    job = click_job(
        "/lake/few",
        "/runs",
        name="cut",
        model="click_model:gated",
        params={"gate": str(gate.path)},
        cluster={
            "strategy": "parameter_server",
            "workers": 2,
            "ps": 1,
            "min_workers": 1,
            "trainer_memory_mib": 2048,
            "placement": "any",
        },
        data={"shuffle_rows": ROWS_PER_GROUP},
        train={**LEASE_LITTLE, "max_attempts": 2},
        timeouts={"heartbeat": 10, "driver_lost": 20, "replace": 5, "stop": 2},
        submit={"deploy_mode": "client"},
    )
    with closing(gate), ClickRun(hadoop, tmp_path, job, run_id="r") as run:
        run.wait_for_line(r"epoch 1/1 ")
        host, node = alone_at_gate(run.application().id)
        hadoop.cut(host)
        gate.open()
        assert run.wait() == 0, run.output()
    result = run.result("r")
    first, second = result.attempts
    assert first.root_cause is not None, run.output()
    # Told by the coordinator, which cannot go on, though all others could; or of it, where TensorFlow keeps it quiet.
    told = rf"{node} at {host}\..* is lost, and a call to it does not end"
    of_it = rf"chief 0 on .* was silent for 10 s; it may have waited for a lost node: {node} on {host}\."
    assert re.match(f"{told}|{of_it}", first.root_cause.message)
    assert host not in {name.partition(".")[0] for name in second.hosts}
    rows = 3 * GROUPS_PER_FILE * ROWS_PER_GROUP
    assert [(epoch.planned, epoch.trained, epoch.complete) for epoch in result.rows] == [(rows, rows, True)]


def alone_at_gate(application: str) -> tuple[str, str]:
    """Waits for both workers at the gate; returns host and node of one where nothing else of the run is.

    Without YARN's part of it, the run would end.
    """
    hosts = hosts_at_gate(application)
    return next((host, names[0]) for host, names in hosts.items() if len(names) == 1 and names[0].startswith("worker "))


def hosts_at_gate(application: str) -> dict[str, list[str]]:
    """Waits for both workers at the gate: each has leased rows then; returns what runs on each host."""
    hosts: dict[str, list[str]] = {}

    def missing() -> str:
        hosts.clear()
        at_gate = set()
        for process in containers_of(application):
            names = hosts.setdefault(process.info["environ"]["NM_HOST"].partition(".")[0], [])
            if process.info["environ"]["CONTAINER_ID"].endswith("_000001"):
                names.append("YARN's master")
            with suppress(OSError):
                stderr = Path(f"/proc/{process.pid}/fd/2")
                if named := re.fullmatch(r"001-(chief|ps|worker)-(\d)\.log", stderr.readlink().name):
                    names.append(f"{named[1]} {named[2]}")
                    if "at the gate" in stderr.read_text():
                        at_gate.add(names[-1])
        return "" if at_gate >= {"worker 0", "worker 1"} else f"{sorted(at_gate)} are, of {hosts}"

    wait_for("both workers are at the gate", missing, 60)
    return hosts
