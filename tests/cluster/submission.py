"""`sparktf submit` as a process under test, on the shared cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
import pyspark
import yaml
from integration.sandbox import QUICK_START, own_packages

from minihadoop import MiniHadoop
from minihadoop.yarn import Application
from sparktf.results.result import RunResult

REPO = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
_PACKAGES = tuple(filter(None, (own_packages(),)))
_ID = re.compile(r"application_\d+_\d+")
_PASSWORD = "hunter2"
MODES = ("cluster", "client")
SPARKTF = (sys.executable, "-c", "import sys; from sparktf.commands.cli import main; sys.exit(main())")
"""The command `sparktf`, of this tree."""

# With it in front, a container's class path begins as spark-submit's does: only then are classes from the archive of
# `make classes` taken there. YARN's own begins with the container's folder.
_JARS = f"{next(SPARK.glob('jars/slf4j-api-*.jar'))}:{SPARK}/jars/*"
SMALL_CONF = {
    "spark.yarn.jars": f"local:{SPARK}/jars/*",
    "spark.driver.extraClassPath": _JARS,
    "spark.executor.extraClassPath": _JARS,
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.yarn.am.extraJavaOptions": QUICK_START,
    "spark.ui.enabled": "false",
}


def digits_config(folder: Path, lake: str, **sections: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a short run of the digits; containers are small, because the hosts are."""
    config: dict[str, Any] = {
        "name": "digits",
        "model": "models.digits:build",
        "params": {"hidden": 16},
        "data": {
            "path": lake,
            "inputs": {"pixels": ["pixel_*"]},
            "targets": {"label": "label"},
            "validation": {"fraction": 0.2},
        },
        # Beside the data, YARN is asked twice, and for more executors than there are nodes: other tests look at that.
        "cluster": {"workers": 2, "trainer_memory_mib": 1024, "placement": "any"},
        "train": {"epochs": 2, "batch_size": 64},
        "output": {"path": f"/runs/{folder.name}", "progress_seconds": 1},
        "submit": {"driver_memory_mib": 512, "executor_memory_mib": 512, "conf": SMALL_CONF},
    }
    for name, values in sections.items():
        config[name] = {**config.get(name, {}), **values}
    return config


def put_digits(hadoop: MiniHadoop, folder: Path) -> str:
    """Puts the lake of `make train` into HDFS, by way of a local folder; returns where it is."""
    subprocess.run([sys.executable, REPO / "jobs/digits_lake.py", folder], check=True)
    for file in folder.rglob("*.parquet"):
        hadoop.hdfs.put(f"/lake/digits/{file.relative_to(folder)}", file.read_bytes())
    return "/lake/digits"


def tags(name: str) -> tuple[str, ...]:
    """Returns options for YARN's tags of a run: one looks like a password.

    It travels apart from the line: Spark must find it, and nobody see it.
    """
    return "--set", f"submit.conf.spark.yarn.tags=sparktf,{name},password={_PASSWORD}"


def environment_of(hadoop: MiniHadoop) -> dict[str, str]:
    """Returns the environment of sparktf's commands on the cluster, for somebody who has set nothing up for Spark."""
    foreign = ("SPARK_HOME", "PYSPARK_PYTHON")
    unpacked = hadoop.folder.path / "tmp"  # what a JVM that is killed leaves goes with the cluster
    unpacked.mkdir(exist_ok=True)
    return {
        **{key: value for key, value in os.environ.items() if key not in foreign},
        **hadoop.environment(),
        "PYTHONPATH": os.pathsep.join(map(str, (*_PACKAGES, REPO, REPO / "jobs"))),
        "PYTHONUNBUFFERED": "1",
        # In cluster mode, options of the driver are not this JVM's.
        "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={unpacked} {QUICK_START}",
    }


def ticket_of(secured: MiniHadoop, user: str | None) -> dict[str, str]:
    """Returns the variable by which a process of the cluster with Kerberos has a user's ticket; of None: nobody's."""
    return {"KRB5CCNAME": secured.environment(user=user)["KRB5CCNAME"]}


def plain_line(script: str, conf: Mapping[str, str], master: str = "yarn") -> tuple[str, ...]:
    """Returns the beginning of a `spark-submit` line as somebody writes it who does without `sparktf submit`.

    Args:
        script: In this repository.
    """
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return (str(SPARK / "bin/spark-submit"), "--master", master, *settings, str(REPO / script))


class Submission:
    """One `sparktf submit`; use it as a context manager, which leaves nothing running."""

    def __init__(
        self,
        hadoop: MiniHadoop,
        folder: Path,
        config: Mapping[str, Any],
        *arguments: str,
        program: Sequence[str | Path] = (*SPARKTF, "submit"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Begins it.

        Args:
            program: What takes the configuration's file and then `arguments`.
            environment: Of its processes, beside what every submission here needs.
        """
        self._hadoop = hadoop
        self._config = config
        self._log = folder / "submit.log"
        file = folder / "job.yaml"
        file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*program, file, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**environment_of(hadoop), **(environment or {})},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process.poll() is None:
            self.press_ctrl_c()
            self.wait()

    def wait(self, within_s: float = 400) -> int:
        """Returns the exit code."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"sparktf submit did not end within {within_s:g} s:\n{self.output()}") from None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def press_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends it and the driver in client mode at once, as if this machine had failed."""
        for process in psutil.Process(self._process.pid).children(recursive=True):
            process.kill()
        self._process.kill()
        self._process.wait()

    def output(self) -> str:
        """Returns what a person sees, so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def application(self) -> Application:
        """Returns the application as YARN sees it."""
        found = _ID.search(self.output())
        assert found, self.output()
        return self._hadoop.yarn.application(found.group())

    def ended_application(self) -> Application:
        """Returns the application once YARN is done with it: in client mode that is a moment after the driver's end."""
        return self._hadoop.yarn.ended_application(self.application().id)

    def assert_is_done(self, mode: str, run_id: str, epochs: int) -> None:
        """Asserts that a run which was submitted with `tags` has ended well, and that everybody is told so."""
        code, said = self.wait(), self.output()
        assert code == 0, said
        assert _PASSWORD not in said
        unauthenticated = said.replace("--conf spark.authenticate=true", "")
        assert "spark.authenticate" not in unauthenticated, "there is nothing to warn of"
        assert f"--deploy-mode {mode}" in said
        assert f"epoch {epochs}/{epochs}" in said
        name = self._config["name"]
        assert f"{name} / {run_id}: done" in said
        application = self.ended_application()
        assert (application.final_status, set(application.tags)) == (
            "SUCCEEDED",
            {"sparktf", name, f"password={_PASSWORD}"},
        )
        assert application.name == f"sparktf {name}"
        result = self.result(run_id)
        assert (result.application, result.application_attempt) == (application.id, 1 if mode == "cluster" else 0)
        hosts = {host.fqdn for host in self._hadoop.config.workers}
        assert {host for attempt in result.attempts for host in attempt.hosts} <= hosts

    def result(self, run_id: str) -> RunResult:
        """Returns what result.json says."""
        path = f"{self._config['output']['path']}/{self._config['name']}/{run_id}/result.json"
        return RunResult.model_validate_json(self._hadoop.hdfs.get(path))


@contextmanager
def in_each_mode(
    hadoop: MiniHadoop, folder: Path, config: Callable[[Path], Mapping[str, Any]], *arguments: str
) -> Iterator[dict[str, Submission]]:
    """Submits in cluster and in client mode at once, for submissions wait more than they compute.

    Args:
        config: Returns the configuration of a submission from that folder.
    """
    with ExitStack() as stack:
        submissions = {}
        for mode in MODES:
            own = folder / f"{folder.name}-{mode}"
            own.mkdir()
            options = (*arguments, "--set", f"submit.deploy_mode={mode}")
            submissions[mode] = stack.enter_context(Submission(hadoop, own, config(own), *options))
        yield submissions
