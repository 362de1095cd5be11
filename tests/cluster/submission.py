"""`sparktf submit` as a process under test, on the mini cluster."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
import yaml

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from sparktf.driver.result import RunResult

SPARK = Path(pyspark.__file__).parent
REPO = Path(__file__).parents[2]
MODELS = Path(__file__).parent / "click_model.py"

_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
CONF = {
    "spark.yarn.jars": f"local:{SPARK}/jars/*",  # all hosts share this machine's disk
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.yarn.am.extraJavaOptions": _QUICK,
    "spark.yarn.am.memory": "512m",
}
"""Settings that make Spark start fast on a small machine."""


class Submission:
    """One `sparktf submit`, with the models of `click_model.py` beside its configuration."""

    def __init__(
        self, hadoop: MiniHadoop, folder: Path, job: Mapping[str, Any], *arguments: str, run_id: str = ""
    ) -> None:
        self._hadoop = hadoop
        self._job = job
        self._run_id = run_id
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODELS, folder)
        submit = {"executor_memory_mib": 512, "driver_memory_mib": 512, **job.get("submit", {})}
        submit["conf"] = {**CONF, **submit.get("conf", {})}
        config = folder / "job.yaml"
        config.write_text(yaml.safe_dump({**job, "submit": submit}), encoding="utf-8")
        self._log = folder / "output.log"
        named = ("--run-id", run_id) if run_id else ()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sparktf.cli", "submit", str(config), *named, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**hadoop.environment(), "PYTHONPATH": str(REPO), "SPARK_HOME": str(SPARK)},
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What a person sees."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def application(self) -> str:
        """The application's id, "" while there is none."""
        found = re.search(r"application_\d+_\d+", self.output)
        return found.group() if found else ""

    def wait(self, within_s: float = 240) -> int:
        """Returns the exit code.

        Raises:
            AssertionError: it did not end in time.
        """
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"sparktf submit did not end within {within_s:g} s:\n{self.output}") from None

    def wait_for_line(self, pattern: str, within_s: float = 120) -> str:
        """Waits until a line of the output matches, and returns that line."""

        def missing() -> str:
            if re.search(pattern, self.output, re.M):
                return ""
            assert self.process.poll() is None, f"it ended without a line like {pattern!r}:\n{self.output}"
            return f"no line like {pattern!r}"

        wait_for(f"sparktf submit says {pattern!r}", missing, within_s)
        found = re.search(f"^.*{pattern}.*$", self.output, re.M)
        assert found
        return found.group()

    def result(self) -> RunResult:
        """Returns result.json of the run."""
        return RunResult.model_validate_json(self._hadoop.hdfs.get(f"{self.run_path}/result.json"))

    @property
    def run_path(self) -> str:
        """The run directory, as a path of HDFS."""
        return f"{self._job['output']['path']}/{self._job['name']}/{self._run_id or self.application}"

    def steps(self) -> list[int]:
        """Returns the steps of the committed checkpoints."""
        names = self._hadoop.hdfs.names(f"{self.run_path}/checkpoints")
        return [int(name.removeprefix("step-")) for name in names if name.startswith("step-")]

    def close(self) -> None:
        """Interrupts it if it still runs, and waits for its end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
