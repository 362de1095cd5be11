"""Runs from which the cluster takes something away: the active NameNode, the ResourceManager, an executor."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster.containers import containers_of, processes_of
from cluster.submission import REPO, SMALL_CONF, SPARKTF, Submission, plain_line
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
def excludes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the hosts that the ResourceManager is to do without: none at first."""
    file = tmp_path_factory.mktemp("yarn") / "excludes"
    file.touch()
    return file


@pytest.fixture(scope="module")
def pair(excludes: Path) -> Iterator[MiniHadoop]:
    """A cluster with a pair of NameNodes, `master` the active one, and two queues; with the test inside its network."""
    name = f"test-{os.getpid()}-pair"
    settings = tuple(QUEUES.items())
    excluded = (("yarn.resourcemanager.nodes.exclude-path", str(excludes)),)
    config = ClusterConfig(
        name, hosts=2, host_memory_mib=8192, host_vcores=16, settings=settings + excluded, namenodes=2
    )
    try:
        cluster = up(config, print)
        with cluster.inside():
            yield cluster
    finally:
        down(config.name, print)


class Run(Submission):
    """A run of two workers that keep books: each epoch is one update of all rows, whose order makes no difference."""

    def __init__(
        self,
        hadoop: MiniHadoop,
        folder: Path,
        name: str,
        mode: str,
        deploy_mode: str,
        *,
        smaller: bool = False,
        memory_mib: int = 1024,
        conf: Mapping[str, str] = MappingProxyType({}),
        program: Sequence[str] = (*SPARKTF, "submit"),
        **train: int,
    ) -> None:
        """Submits it. `smaller`: it goes on with one worker where the other does not come back within seconds."""
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
            cluster={
                "workers": 2,
                "min_workers": 1 if smaller else 2,
                "trainer_memory_mib": memory_mib,
                "placement": "any",
            },
            timeouts={"replace": 5} if smaller else {},
            train={"batch_size": 2 * ROWS, "epochs": EPOCHS, **train},  # no node has more rows than its half of a batch
            publish={},
            submit={
                "driver_memory_mib": 512,
                "executor_memory_mib": 512,
                "executor_cores": 2,
                "deploy_mode": deploy_mode,
                "conf": {**SMALL_CONF, **conf},
            },
        )
        self._name, self._folder = name, folder
        super().__init__(hadoop, folder, config, "--run-id", "r", program=program)

    def held_after_a_commit(self) -> None:
        """Waits until both workers wait in their second update, and the first is stored."""
        self.watch.held(2)
        wait_for("the first checkpoint is committed", lambda: "" if self.has_checkpoint() else "it is not", 60)

    def assert_went_on(self) -> None:
        """Asserts that the other one went on without the node that was taken back, whichever of them led."""
        result = self.result("r")
        (attempt,) = result.attempts
        assert [loss.taken_back for loss in attempt.losses] == [True]
        assert [(rows.trained, rows.complete) for rows in result.rows] == [(ROWS, True)] * EPOCHS

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
        result = self.result("r")
        assert self._hadoop.yarn.ended_application(result.application).final_status == "SUCCEEDED"
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
    "cluster/test_yarn_takeovers.py::test_a_preempted_executor_costs_no_attempt_and_the_other_one_goes_on",
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


TAKEN_BACK = r"^warning: worker \d "
"""A line of the run: it goes on without the node."""


def preempted(run: Run, pair: MiniHadoop, stack: ExitStack) -> None:
    """Has an urgent queue take an executor of a run that has committed, until the stack ends."""
    run.held_after_a_commit()
    for _ in range(6):
        stack.enter_context(sleeper(pair, "urgent", 2048))
    run.wait_for(rf"{TAKEN_BACK}.*Container .* was preempted")
    run.watch.release()


@pytest.mark.timeout(300)
def test_a_preempted_executor_costs_no_attempt_and_the_other_one_goes_on(
    pair: MiniHadoop, lake: pa.Table, tmp_path: Path
) -> None:
    with Run(pair, tmp_path / "run", "preempted", "direct", "client", max_attempts=1) as run, ExitStack() as stack:
        preempted(run, pair, stack)
        stack.close()
        run.assert_is_done(lake)
        run.assert_went_on()


@pytest.mark.more(
    "cluster/test_yarn_takeovers.py::test_a_preempted_executor_costs_no_attempt_and_the_other_one_goes_on",
    "unit/test_gang.py::test_what_was_taken_back_is_waited_for_as_long_as_the_first_nodes_unless_fewer_are_enough",
)
@pytest.mark.timeout(300)
def test_a_run_whose_executor_is_preempted_for_longer_goes_on_smaller(
    pair: MiniHadoop, lake: pa.Table, tmp_path: Path
) -> None:
    with (
        Run(pair, tmp_path / "run", "smaller", "direct", "client", smaller=True, max_attempts=1) as run,
        ExitStack() as stack,
    ):
        preempted(run, pair, stack)
        run.assert_is_done(lake)
        run.assert_went_on()


@pytest.mark.more(
    "cluster/test_yarn_takeovers.py::test_a_preempted_executor_costs_no_attempt_and_the_other_one_goes_on",
    "unit/test_lost_executors.py::test_the_cluster_took_it_back",
)
@pytest.mark.timeout(300)
def test_a_host_that_is_decommissioned_costs_no_attempt(
    pair: MiniHadoop, lake: pa.Table, tmp_path: Path, excludes: Path
) -> None:
    # Of each host, one has room for one worker only.
    conf = {"spark.decommission.enabled": "true", "spark.yarn.executor.decommission.enabled": "true"}
    with Run(
        pair,
        tmp_path / "run",
        "decommissioned",
        "direct",
        "client",
        smaller=True,
        memory_mib=4096,
        conf=conf,
        max_attempts=1,
    ) as run:
        run.held_after_a_commit()
        application = _ask("GET", f"{pair.yarn.url}/ws/v1/cluster/apps/{run.application().id}")["app"]
        of_master = application["amHostHttpAddress"].partition(":")[0]
        [other] = [host for host in pair.config.workers if host.fqdn != of_master]
        excludes.write_text(f"{other.fqdn}\n", encoding="ascii")
        try:
            pair.tool("rmadmin", "-refreshNodes", "-g", "5", "-server")
            run.wait_for(rf"{TAKEN_BACK}.*decommission")
            run.watch.release()
            run.assert_is_done(lake)
            run.assert_went_on()
        finally:
            excludes.write_text("", encoding="ascii")
            pair.tool("rmadmin", "-refreshNodes")
            up(pair.config, print)


ALLOCATED = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.submit.deployMode": "client",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "1664m",
    "spark.executor.cores": "1",
    "spark.driver.memory": "512m",
}


@pytest.mark.more(
    "integration/test_dynamic_allocation.py::test_a_gang_keeps_its_executors_outlives_one_and_gives_all_back",
    "cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after",
)
@pytest.mark.timeout(300)
def test_spark_submit_with_dynamic_allocation_trains_each_row_once_and_gives_all_back(
    pair: MiniHadoop, lake: pa.Table, tmp_path: Path
) -> None:
    program = (*plain_line("jobs/train.py", {**SMALL_CONF, **ALLOCATED}), "--config")
    with Run(pair, tmp_path / "run", "allocated", "direct", "client", program=program) as run:
        run.watch.held(2)
        [application] = [found.id for found in pair.yarn.applications() if not found.has_ended]

        def too_many() -> str:
            count = len({process.info["environ"]["CONTAINER_ID"] for process in containers_of(application)})
            return "" if count == 3 else f"there are {count}"  # the master's, and one for each worker

        wait_for("spare executors are given back, and only they", too_many, 90)
        run.watch.release()
        run.assert_is_done(lake)
        assert len(run.result("r").attempts) == 1
        assert run.watch.ids(run.watch.pids()) == Counter(dict.fromkeys(range(1, ROWS + 1), EPOCHS))
        wait_for("no process is left", lambda: "; ".join(processes_of(application)), 60)


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
