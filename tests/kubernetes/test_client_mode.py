"""`spark-submit --master k8s://` in client mode: trains, goes on when pods are lost, and resumes."""

from __future__ import annotations

import sys
from pathlib import Path

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
    "spark.executor.instances": "2",
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
    )  # fmt: skip
    watch.hold()
    submit = Submit(sandbox, f"k8s://{pods.api.url}", config, "--run-id", "r", conf=CONF)
    run = submit.run("r")
    first = watch.held(2, within_s=100)
    wait_for("a commit", lambda: EVERY in run.committed(), within_s=60)
    victim = pods.node.executors()[-1]
    victim.kill("java")
    watch.release()
    assert submit.wait(within_s=200) == 0, sandbox.report()
    result = run.result()
    assert [a.from_step for a in result.attempts] == [0, EVERY]
    assert result.rows_trained == ROWS
    trained = watch.ids([held.pid for held in first], updates=EVERY) + watch.ids(watch.pids()[2:])
    assert trained == dict.fromkeys(range(1, ROWS + 1), 1)
