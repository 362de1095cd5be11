"""`sparktf submit` to Kubernetes with the driver in a pod, and its files on a volume."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pyspark
import yaml
from cluster.submission import SPARKTF
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import QUICK_START, REPO, Sandbox
from integration.watch import Watch
from kubernetes.conftest import Cluster

from sparktf import Verdict

ROWS = 600
CASES = Path(__file__).parents[1] / "integration/cases"


def submission(pods: Cluster, folder: Path) -> dict[str, Any]:
    """Returns the section `submit` of pods on this machine, whose volume is a folder."""
    return {
        "master": f"k8s://{pods.api.url}",
        "driver_memory_mib": 512,
        "executor_memory_mib": 512,
        "kubernetes": {
            "image": "here",
            "python": sys.executable,
            "volumes": {"shared": {"host_path": str(folder), "path": str(folder)}},
            "upload": f"file://{folder}/uploads",
        },
        "conf": {
            "spark.kubernetes.driver.master": pods.api.url,
            "spark.kubernetes.driverEnv.PYTHONPATH": str(REPO),
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
        },
    }


class Submitted:
    """One `sparktf submit`, from a folder with the user's code."""

    def __init__(self, sandbox: Sandbox, config: Mapping[str, Any], *arguments: str) -> None:
        self._log = sandbox.folder / "submit.log"
        (sandbox.cwd / "job.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        if not (sandbox.cwd / "cases").exists():
            (sandbox.cwd / "cases").symlink_to(CASES)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*SPARKTF, "submit", "job.yaml", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=sandbox.cwd,
                env={**sandbox.environment(), "SPARK_HOME": str(Path(pyspark.__file__).parent)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()

    def wait(self, within_s: float = 200) -> int:
        """Returns the exit code."""
        return self._process.wait(within_s)

    def press_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def output(self) -> str:
        """What a person sees, so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def test_a_run_whose_drivers_pod_was_deleted_goes_on_where_it_was(
    pods: Cluster, sandbox: Sandbox, rows: Path, watch: Watch, tmp_path: Path
) -> None:
    (tmp_path / "uploads").mkdir()
    config = job(
        rows,
        sandbox.runs,
        "cases.watched:build",
        params=watch.params(hold_at=6),
        train={"batch_size": 30},
        checkpoint={"every_steps": 4},
        cluster={"workers": 1, "trainer_memory_mib": 1024},
        timeouts={"owner": 3},
        submit=submission(pods, tmp_path),
    )
    watch.hold()
    with Submitted(sandbox, config, "--run-id", "r") as submitted:
        run = sandbox.run(config, "r")
        first = watch.held(1, within_s=150)
        wait_for("a commit", lambda: 4 in run.committed(), within_s=60)
        driver = pods.node.driver()
        pods.node.delete(driver)
        assert submitted.wait() == Verdict.INFRASTRUCTURE, submitted.output()
        said = submitted.output()
    assert re.search(r"submitted as spark-\w+ to Kubernetes, namespace default", said), said
    assert f"logs: kubectl logs --namespace default {driver.name}" in said
    wait_for("its executors end", lambda: not pods.node.executors(), within_s=60)

    watch.release()
    with Submitted(sandbox, config, "--run-id", "r") as again:
        assert again.wait() == 0, again.output()
    assert "epoch 1/1" in again.output()
    result = run.result()
    assert result.application == re.findall(r"submitted as (\S+) to", again.output())[0]
    assert [attempt.from_step for attempt in result.attempts] == [4]
    trained = watch.ids([held.pid for held in first], updates=4) + watch.ids(watch.pids()[1:])
    assert trained == dict.fromkeys(range(1, ROWS + 1), 1)


def test_ctrl_c_deletes_the_drivers_pod(pods: Cluster, sandbox: Sandbox, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "uploads").mkdir()
    config = job(rows, sandbox.runs, "cases.watched:build", submit=submission(pods, tmp_path))
    with Submitted(sandbox, config) as submitted:
        wait_for("it is submitted", lambda: "to Kubernetes, namespace default" in submitted.output(), within_s=120)
        wait_for("its driver's pod runs", lambda: pods.node.pods, within_s=60)
        submitted.press_ctrl_c()
        assert submitted.wait() == 130, submitted.output()
    assert "interrupted: stopping the application" in submitted.output()
    assert "could not be killed" not in submitted.output()
    wait_for("all of its pods end", lambda: not pods.node.pods, within_s=60)
