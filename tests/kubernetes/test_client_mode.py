"""`spark-submit --master k8s://` in client mode: trains, goes on when pods are lost, and resumes."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import QUICK_START, Sandbox
from integration.submit import Submit
from integration.watch import Watch
from kubernetes.conftest import Cluster
from kubernetes.pods import GATEWAY

ROWS = 600
EVERY = 4
HOLD_AT = 6  # updates of one trainer

CONF = {
    "spark.driver.host": GATEWAY,
    "spark.driver.bindAddress": GATEWAY,
    "spark.kubernetes.container.image": "here",
    "spark.kubernetes.executor.podNamePrefix": "digits",
    "spark.executor.instances": "1",  # the driver asks for the other one
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "1664m",
    "spark.pyspark.python": sys.executable,
    "spark.executor.extraJavaOptions": QUICK_START,
}


def test_a_run_outlives_killed_pods_and_each_row_is_trained_once(
    pods: Cluster, sandbox: Sandbox, rows: Path, watch: Watch
) -> None:
    config = job(
        rows, sandbox.runs, "cases.watched:build", params=watch.params(hold_at=HOLD_AT),
        train={"batch_size": 30, "max_attempts": 2}, checkpoint={"every_steps": EVERY},
        cluster={"trainer_memory_mib": 1024},
    )  # fmt: skip
    watch.hold()
    submit = Submit(sandbox, f"k8s://{pods.api.url}", config, "--run-id", "r", conf=CONF)
    run = submit.run("r")
    first = watch.held(2, within_s=150)
    wait_for("a commit", lambda: EVERY in run.committed(), within_s=60)
    pods.node.executors()[-1].kill("java")
    watch.release()
    wait_for("its trainers end", lambda: not any(psutil.pid_exists(held.pid) for held in first), within_s=60)
    watch.hold()
    second = watch.held(2, but=first, within_s=150)
    wait_for("another commit", lambda: 2 * EVERY in run.committed(), within_s=60)
    pods.node.delete(pods.node.executors()[0])
    watch.release()
    assert submit.wait(within_s=200) == 0, sandbox.report()
    result = run.result()
    assert [a.from_step for a in result.attempts] == [0, EVERY, 2 * EVERY]
    causes = [a.root_cause.message if a.root_cause else "" for a in result.attempts]
    assert "lost its executor: its pod ended with exit code 137: OOMKilled. In sparktf's configuration" in causes[0]
    assert "lost its executor: its pod was deleted: " in causes[1]
    assert "the cluster took a node back" in "\n".join(submit.output()), "and that cost none of the two attempts"
    assert result.rows_trained == ROWS
    attempts = [[held.pid for held in attempt] for attempt in (first, second)]
    trained = sum((watch.ids(pids, updates=EVERY) for pids in attempts), watch.ids(watch.pids()[4:]))
    assert trained == dict.fromkeys(range(1, ROWS + 1), 1)
