"""Runs from which the cluster takes something away: the active NameNode, the ResourceManager, an executor."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster.submission import REPO, SMALL_CONF, Submission
from integration.rows import job, write_rows
from integration.watch import Watch
from integration.weights import descended, weights_of

from minihadoop import ClusterConfig, MiniHadoop, NodeState, down, up
from minihadoop.waiting import wait_for
from sparktf.hadoop import HadoopConf
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore

FILE_ROWS = (300, 90, 210) * 2
ROWS = sum(FILE_ROWS)
EPOCHS = 6

_OF_ROOT = "yarn.scheduler.capacity.root"
_PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"
QUEUES = {
    f"{_OF_ROOT}.queues": "default,urgent",
    f"{_OF_ROOT}.default.capacity": "10",
    f"{_OF_ROOT}.default.user-limit-factor": "10",
    f"{_OF_ROOT}.urgent.capacity": "90",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    f"{_PREEMPTION}.monitoring_interval": "500",
    f"{_PREEMPTION}.max_wait_before_kill": "1000",
    f"{_PREEMPTION}.total_preemption_per_round": "1.0",
    f"{_PREEMPTION}.natural_termination_factor": "1.0",
    f"{_PREEMPTION}.max_ignored_over_capacity": "0.0",
}
"""What `default` has beyond a tenth of the cluster, `urgent` takes back when it wants it."""


@pytest.fixture(scope="module")
def pair() -> Iterator[MiniHadoop]:
    """A cluster with a pair of NameNodes, `master` the active one, and two queues; with the test inside its network."""
    name = f"test-{os.getpid()}-pair"
    settings = tuple(QUEUES.items())
    config = ClusterConfig(name, hosts=2, host_memory_mib=8192, host_vcores=16, settings=settings, namenodes=2)
    try:
        cluster = up(config, print)
        with cluster.inside():
            yield cluster
    finally:
        down(config.name, print)


class Run(Submission):
    """A run of two workers that keep books: each epoch is one update of all rows, whose order makes no difference."""

    def __init__(self, hadoop: MiniHadoop, folder: Path, name: str, mode: str, deploy_mode: str, **train: int) -> None:
        shutil.copytree(REPO / "tests/integration/cases", folder / "cases")
        self.watch = Watch(folder / "books")
        self.watch.hold()
        config = job(
            Path("/lake/rows"),
            Path("/runs"),
            "cases.watched:build",
            name=name,
            params=self.watch.params(hold_at=2),
            data={"mode": mode, "cache": "off"},
            cluster={"workers": 2, "min_workers": 2, "trainer_memory_mib": 1024, "placement": "any"},
            train={"batch_size": 2 * ROWS, "epochs": EPOCHS, **train},  # no node has more rows than its half of a batch
            publish={},
            submit={
                "driver_memory_mib": 512,
                "executor_memory_mib": 512,
                "executor_cores": 2,
                "deploy_mode": deploy_mode,
                "conf": SMALL_CONF,
            },
        )
        self._name, self._folder = name, folder
        super().__init__(hadoop, folder, config, "--run-id", "r")

    def has_checkpoint(self) -> bool:
        """Whether a checkpoint is committed."""
        path = f"/runs/{self._name}/r"
        hdfs = self._hadoop.hdfs
        return "checkpoints" in hdfs.names(path) and any(n[:5] == "step-" for n in hdfs.names(f"{path}/checkpoints"))

    def wait_for(self, pattern: str, within_s: float = 90) -> None:
        """Waits until a line of the output matches."""

        def missing() -> str:
            return "" if re.search(pattern, self.output(), re.MULTILINE) else "it has not"

        wait_for(f"sparktf submit says {pattern!r}", missing, within_s, lambda: self.output()[-3000:])

    def assert_is_done(self, table: pa.Table) -> None:  # type: ignore[override]
        """Asserts that it has made of the rows what it would have made undisturbed, and has stored and published it."""
        assert self.wait(100) == 0, self.output()
        assert self.ended_application().final_status == "SUCCEEDED"
        result = self.result("r")
        assert [(e.planned, e.fed, e.trained) for e in result.rows[-1:]] == [(ROWS, ROWS, ROWS)]
        assert (result.steps, result.rows_trained) == (EPOCHS, EPOCHS * ROWS)
        storage = FileSystems(HadoopConf.from_folder(self._hadoop.conf_dir())).open("/runs")
        model = storage.read_bytes(f"hdfs://lake/runs/{self._name}/serving/1/model.keras")
        (self._folder / "model.keras").write_bytes(model)
        x, y = np.column_stack([table["a"], table["b"]]), table["y"].to_numpy()
        np.testing.assert_allclose(weights_of(self._folder), descended(x, y, updates=EPOCHS), rtol=1e-5)
        torn: list[tuple[str, str]] = []
        rundir = RunDirectory("/runs", self._name, "r")
        found = CheckpointStore(storage, rundir, 3, on_torn=lambda *said: torn.append(said)).latest()
        assert found is not None  # it has read its files, and compared checksums
        assert (torn, found[0].step) == ([], EPOCHS)


@pytest.fixture(scope="module")
def lake(pair: MiniHadoop, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The rows, which are in HDFS, too."""
    folder = write_rows(tmp_path_factory.mktemp("rows"), FILE_ROWS)
    for file in folder.iterdir():
        pair.hdfs.put(f"/lake/rows/{file.name}", file.read_bytes())
    return pq.read_table(folder)


@pytest.mark.more(
    "cluster/test_hdfs_namenodes.py::test_a_rename_whose_answer_is_lost_in_a_failover_is_done_once",
    "cluster/test_hdfs_storage.py::TestNameNode::test_one_that_stays_away_is_said_at_the_deadline_and_a_restart_is_waited_out_by_whatever_is_under_way",
    "cluster/test_yarn_takeovers.py::test_a_preempted_executor_costs_no_attempt_and_is_waited_for",
)
@pytest.mark.timeout(600)
def test_runs_outlive_the_active_namenode_and_the_resourcemanager_as_if_nothing_had_been(
    pair: MiniHadoop, lake: pa.Table, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        runs = [
            stack.enter_context(Run(pair, tmp_path / mode, mode, mode, deploy_mode))
            for mode, deploy_mode in (("direct", "cluster"), ("spark", "client"))
        ]
        for run in runs:
            run.watch.held(2)
        pair.kill("namenode", "master")
        pair.kill("resourcemanager")
        for run in runs:
            run.watch.release()
        pair.start("resourcemanager")
        # By now the trainers are at the next epoch's files, and the driver at a checkpoint.
        pair.make_active("master2")
        for host in pair.config.workers:
            pair.wait_for_nodemanager(host.name, NodeState.RUNNING)
        for run in runs:
            run.assert_is_done(lake)
            assert run.watch.ids(run.watch.pids()) == Counter(dict.fromkeys(range(1, ROWS + 1), EPOCHS))
            assert len(run.result("r").attempts) == 1
    assert pair.hdfs.active() == "master2"


@pytest.mark.timeout(300)
def test_a_preempted_executor_costs_no_attempt_and_is_waited_for(
    pair: MiniHadoop, lake: pa.Table, tmp_path: Path
) -> None:
    with Run(pair, tmp_path / "run", "preempted", "direct", "client", max_attempts=1) as run, ExitStack() as stack:
        before = run.watch.held(2)
        wait_for(
            "the first checkpoint is committed",
            lambda: "" if run.has_checkpoint() else "it is not",
            60,
        )
        sleepers = [stack.enter_context(sleeper(pair, "urgent", 2048)) for _ in range(6)]
        run.wait_for(r"^the cluster took a node back.*Container .* was preempted")
        run.watch.release()
        run.wait_for(r"^waiting for nodes: [01] of 2")
        stack.close()
        assert sleepers
        run.assert_is_done(lake)
        pids = [held.pid for held in before]
        after = [pid for pid in run.watch.pids() if pid not in pids]
        found = run.watch.ids(pids, updates=1) + run.watch.ids(after)
        assert found == Counter(dict.fromkeys(range(1, ROWS + 1), EPOCHS))
        assert [(a.from_step, a.to_step) for a in run.result("r").attempts][1:] == [(1, EPOCHS)]


@contextmanager
def sleeper(hadoop: MiniHadoop, queue: str, memory_mib: int) -> Iterator[str]:
    """Has an application hold memory of a queue, by its master alone, which sleeps; yields its id."""
    apps = f"{hadoop.yarn.url}/ws/v1/cluster/apps"
    identity = _ask("POST", f"{apps}/new-application")["application-id"]
    application = {
        "application-id": identity,
        "application-name": "sleeper",
        "application-type": "YARN",
        "queue": queue,
        "max-app-attempts": 1,
        "resource": {"memory": memory_mib, "vCores": 1},
        "am-container-spec": {"commands": {"command": "sleep 300"}},
    }
    _ask("POST", apps, application)
    try:
        yield identity
    finally:
        _ask("PUT", f"{apps}/{identity}/state", {"state": "KILLED"})


def _ask(method: str, url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(f"{url}?user.name=root", content, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read() or b"{}")
    return found
