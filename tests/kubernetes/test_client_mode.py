"""`spark-submit --master k8s://` in client mode: trains, goes on when pods are lost, and resumes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import QUICK_START, Sandbox
from integration.submit import Submit
from integration.test_doctor_nodes import asked
from integration.watch import Held, Watch
from kubernetes.conftest import Cluster
from kubernetes.pods import GATEWAY, Pod

ROWS = 600
HOLD_AT = 6  # updates of one trainer
EPOCHS = 60  # Long enough for two successors to start meanwhile, an update at a time

CONF = {
    "spark.driver.host": GATEWAY,
    "spark.driver.bindAddress": GATEWAY,
    "spark.kubernetes.container.image": "here",
    "spark.executor.instances": "1",  # the driver asks for the other one
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "1664m",
    "spark.pyspark.python": sys.executable,
    "spark.executor.extraJavaOptions": QUICK_START,
}

DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
}


@pytest.fixture(autouse=True)
def _confined(pods: Cluster) -> Iterator[None]:
    """The driver here has the rights of one in a pod."""
    pods.api.confines_all = True
    yield
    pods.api.confines_all = False
    assert pods.api.rights.used <= pods.api.rights.granted


def held_job(rows: Path, sandbox: Sandbox, watch: Watch) -> dict[str, Any]:
    """Returns the configuration of a training whose trainers are held amid it, and which may lose no attempt."""
    return job(
        rows, sandbox.runs, "cases.watched:build", params=watch.params(hold_at=HOLD_AT),
        train={"batch_size": 30, "epochs": EPOCHS, "max_attempts": 1},
        cluster={"trainer_memory_mib": 1024},
    )  # fmt: skip


def test_a_run_outlives_killed_pods_and_each_row_is_trained_once(
    pods: Cluster, sandbox: Sandbox, rows: Path, watch: Watch
) -> None:
    config = held_job(rows, sandbox, watch)
    watch.hold()
    submit = Submit(sandbox, f"k8s://{pods.api.url}", config, "--run-id", "r", conf=CONF)
    leader, first = watch.held(2, within_s=150)
    watch.hold_by_one()
    pod_of(pods, first).kill("java")
    second = watch.joined(leader, first)
    deleted = pod_of(pods, second)
    pods.node.delete(deleted)
    wait_for("its processes end", lambda: deleted.name not in pods.node.pods, within_s=60)
    watch.joined(leader, first, second)
    watch.release()
    assert submit.wait(within_s=200) == 0, sandbox.report()
    result = submit.run("r").result()
    (attempt,) = result.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 1"] * 2
    causes = [loss.message for loss in attempt.losses]
    assert "lost its executor: its pod ended with exit code 137: OOMKilled. In sparktf's configuration" in causes[0]
    assert "lost its executor: its pod was deleted: " in causes[1]
    assert [(epoch.trained, epoch.complete) for epoch in result.rows] == [(ROWS, True)] * EPOCHS


def pod_of(pods: Cluster, held: Held) -> Pod:
    """Returns the pod of a trainer."""
    (found,) = (pod for pod in pods.node.executors() if held.pid in pod.processes())
    return found


@pytest.mark.more(
    "integration/test_dynamic_allocation.py::test_a_gang_keeps_its_executors_outlives_one_and_gives_all_back"
)
def test_where_spark_allocates_executors_a_gang_keeps_its_pods_and_gives_them_back(
    pods: Cluster, sandbox: Sandbox, rows: Path, watch: Watch
) -> None:
    config = held_job(rows, sandbox, watch)
    conf = {key: value for key, value in CONF.items() if key != "spark.executor.instances"}
    application = Application(sandbox, f"k8s://{pods.api.url}", {**conf, **DYNAMIC})
    watch.hold()
    pods.api.quota = 1
    application.begin(config, "r")
    wait_for("the quota lets a pod in", pods.node.executors, within_s=60)
    pods.api.quota = None
    leader, first = watch.held(2, within_s=150)
    watch.hold_by_one()
    pod_of(pods, first).kill("java")
    watch.joined(leader, first)
    watch.release()
    outcome = application.outcome()
    assert "waiting for nodes: 1 of 2" in outcome.output
    (attempt,) = outcome.done.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 1"]
    assert [(epoch.trained, epoch.complete) for epoch in outcome.done.rows] == [(ROWS, True)] * EPOCHS
    wait_for("Spark gives them back", lambda: not pods.node.executors(), within_s=60)
    too_many = application.train({**config, "cluster": {"workers": 4}})
    assert too_many.error == "PreflightError"
    assert "4 nodes need as many executors, but spark.dynamicAllocation.maxExecutors is 3" in too_many.message
    assert not application.close()


@pytest.mark.more("integration/test_doctor_nodes.py::test_nodes_are_asked_by_the_agents_of_a_run_and_given_back")
def test_doctor_asks_the_pods_that_a_run_would_get(pods: Cluster, sandbox: Sandbox, tmp_path: Path) -> None:
    conf = {**CONF, "spark.executor.memoryOverhead": "2688m"}
    doctor = asked(sandbox, tmp_path, f"k8s://{pods.api.url}", conf)
    out, err = doctor.communicate(timeout=240)
    found = {one["subject"]: (one["mark"], one["found"]) for one in json.loads(out)["diagnoses"]}
    assert [subject for subject, (mark, _) in found.items() if mark == "stop"] == ["nodes"], (found, err)
    assert f": the model imports seasons_of_ours, which {sys.executable} lacks: install" in found["nodes"][1]
    assert "MiB of disk free" in found["hosts"][1]
    assert found["network"][1].startswith(f"all reach the driver here at {GATEWAY}:"), found["network"]
    assert "and each other at any port" in found["network"][1]
    wait_for("its pods end", lambda: not pods.node.pods, within_s=60)
