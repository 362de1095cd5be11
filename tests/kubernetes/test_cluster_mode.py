"""`sparktf submit` to Kubernetes with the driver in a pod, and all files in a store of objects."""

from __future__ import annotations

import base64
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
from kubernetes.rights import Right
from object_stores import ACCESS_KEY, SECRET_KEY, S3Server

from sparktf import Verdict
from sparktf.hadoop import HadoopConf
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore

ROWS = 600
EVERY = 4
HOLD_AT = 6  # updates of one trainer
LAKE, RUNS = "s3a://night/lake", "s3a://night/runs"
CASES = Path(__file__).parents[1] / "integration/cases"
CONNECTOR = f"{REPO}/.s3a/jars/*"
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
SECRET = "store"
LOW = "The node was low on resource: ephemeral-storage."


def submission(pods: Cluster, upload: str, conf: Mapping[str, str], **kubernetes: Any) -> dict[str, Any]:
    """Returns the section `submit` of pods on this machine; `kubernetes` is added to its section of this name."""
    return {
        "master": f"k8s://{pods.api.url}",
        "driver_memory_mib": 512,
        "executor_memory_mib": 512,
        "kubernetes": {"image": "here", "python": sys.executable, "upload": upload, **kubernetes},
        "conf": {
            "spark.kubernetes.driver.master": pods.api.url,
            "spark.kubernetes.driverEnv.PYTHONPATH": str(REPO),
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            **conf,
        },
    }


def in_store(pods: Cluster, store: S3Server) -> dict[str, Any]:
    """Returns the section of pods whose files are in a store. Its keys are in a Secret, which the driver alone has."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in KEYS.items()}
    pods.api.put("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data})
    hadoop = {key: value for key, value in store.hadoop().items() if value not in KEYS.values()}
    conf = {
        **{f"spark.hadoop.{key}": value for key, value in hadoop.items()},
        **{f"spark.kubernetes.driver.secretKeyRef.{key}": f"{SECRET}:{key}" for key in KEYS},
        "spark.kubernetes.driverEnv.SPARK_DIST_CLASSPATH": CONNECTOR,
    }
    return submission(pods, "s3a://night/uploads", conf, service_account="sparktf")


class Submitted:
    """One `sparktf submit`, from a folder with the user's code, and with the store's keys in the environment."""

    def __init__(self, sandbox: Sandbox, config: Mapping[str, Any], *arguments: str) -> None:
        self._log = sandbox.log  # which the report of a test that failed shows
        (sandbox.cwd / "job.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        if not (sandbox.cwd / "cases").exists():
            (sandbox.cwd / "cases").symlink_to(CASES)
        own = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_DIST_CLASSPATH": CONNECTOR}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*SPARKTF, "submit", "job.yaml", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=sandbox.cwd,
                env={**sandbox.environment(), **KEYS, **own},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()

    def wait(self, within_s: float = 200) -> int:
        """Returns the exit code."""
        return self._process.wait(within_s)

    def press_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def output(self) -> str:
        """What a person sees, so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def test_a_night_in_a_store_outlives_an_evicted_executor_and_a_deleted_driver(
    pods: Cluster, store: S3Server, sandbox: Sandbox, rows: Path, watch: Watch
) -> None:
    systems = FileSystems(HadoopConf(properties=store.hadoop()))
    for file in sorted(rows.iterdir()):
        systems.open(LAKE).upload(file, f"{LAKE}/{file.name}")
    storage, run = systems.open_runs(RUNS), RunDirectory(RUNS, "t", "r")
    config = job(
        Path("x"),
        RUNS,
        "cases.watched:build",
        params=watch.params(hold_at=HOLD_AT),
        data={"path": LAKE},
        train={"batch_size": 30, "max_attempts": 2},
        checkpoint={"every_steps": EVERY},
        cluster={"workers": 1, "trainer_memory_mib": 1024},
        timeouts={"owner": 3},
        submit=in_store(pods, store),
    )
    watch.hold()
    with Submitted(sandbox, config, "--run-id", "r") as submitted:
        first = watch.held(1, within_s=150)
        wait_for("a commit", lambda: EVERY in CheckpointStore(storage, run, 1).list(), within_s=60)
        pods.node.evict(pods.node.executors()[0], LOW)
        second = watch.held(1, but=first, within_s=150)
        wait_for("a commit", lambda: 2 * EVERY in CheckpointStore(storage, run, 1).list(), within_s=60)
        evicted = f"lost its executor: its pod ended with exit code 137: Evicted: {LOW}"
        wait_for("why an executor went", lambda: evicted in submitted.output(), within_s=30)
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
    result = RunResult.model_validate_json(storage.read_bytes(run.result))
    assert result.application == re.findall(r"submitted as (\S+) to", again.output())[0]
    assert [attempt.from_step for attempt in result.attempts] == [2 * EVERY]
    early = watch.ids([held.pid for held in (*first, *second)], updates=EVERY)
    assert early + watch.ids(watch.pids()[2:]) == dict.fromkeys(range(1, ROWS + 1), 1)
    told = "\n".join([said, again.output(), *(pod.log for pod in pods.node.past.values())])
    assert SECRET_KEY not in told
    # patch is for pods that are kept (deleteOnTermination=false).
    assert pods.api.rights.used == pods.api.rights.granted - {Right("patch", "pods")}


def test_ctrl_c_deletes_the_drivers_pod(pods: Cluster, sandbox: Sandbox, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "uploads").mkdir()
    shared = {"shared": {"host_path": str(tmp_path), "path": str(tmp_path)}}
    submit = submission(pods, f"file://{tmp_path}/uploads", {}, volumes=shared)
    config = job(rows, sandbox.runs, "cases.watched:build", submit=submit)
    with Submitted(sandbox, config) as submitted:
        wait_for("it is submitted", lambda: "to Kubernetes, namespace default" in submitted.output(), within_s=120)
        wait_for("its driver's pod runs", lambda: pods.node.pods, within_s=60)
        submitted.press_ctrl_c()
        assert submitted.wait() == 130, submitted.output()
    assert "interrupted: stopping the application" in submitted.output()
    assert "could not be killed" not in submitted.output()
    wait_for("all of its pods end", lambda: not pods.node.pods, within_s=60)
