"""A run over the click log, submitted to the mini cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from cluster.submission import REPO, SMALL_CONF, Submission

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from sparktf.preview.forecast import Forecast

MODELS = Path(__file__).parent / "click_model.py"


def click_config(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a job whose containers are small."""
    small = {"driver_memory_mib": 512, "executor_memory_mib": 512, "conf": SMALL_CONF}
    return {**job, "submit": {**small, **job.get("submit", {})}}


def plan_clicks(hadoop: MiniHadoop, folder: Path, job: Mapping[str, Any], run_id: str) -> Forecast:
    """Returns what `sparktf plan` says of a run, as a person beside the cluster asks it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(MODELS, folder)
    (folder / "job.yaml").write_text(yaml.safe_dump(click_config(job)), encoding="utf-8")
    command = [sys.executable, "-m", "sparktf.commands.cli", "plan", "job.yaml", "--run-id", run_id, "--json"]
    environment = {**os.environ, **hadoop.environment(), "PYTHONPATH": str(REPO)}
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert found.stdout, found.stderr
    forecast = Forecast.model_validate_json(found.stdout)
    assert found.returncode == forecast.exit_code, found.stderr
    return forecast


class ClickRun(Submission):
    """One `sparktf submit`, with the models of `click_model.py` beside its configuration."""

    def __init__(
        self, hadoop: MiniHadoop, folder: Path, job: Mapping[str, Any], *arguments: str, run_id: str = ""
    ) -> None:
        self._run_id = run_id
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODELS, folder)
        super().__init__(hadoop, folder, click_config(job), *(("--run-id", run_id) if run_id else ()), *arguments)

    @property
    def name(self) -> str:
        """The run id."""
        return self._run_id or self.application().id

    @property
    def run_path(self) -> str:
        """The run directory, as a path of HDFS."""
        return f"{self._config['output']['path']}/{self._config['name']}/{self.name}"

    def wait_for_line(self, pattern: str, within_s: float = 300) -> None:
        """Waits until a line of the output matches."""

        def missing() -> str:
            if re.search(pattern, self.output(), re.MULTILINE):
                return ""
            assert self.is_running, f"it ended without a line like {pattern!r}:\n{self.output()}"
            return "it has not"

        wait_for(f"sparktf submit says {pattern!r}", missing, within_s, lambda: self.output()[-3000:])

    def wait_for_commit(self, within_s: float = 200) -> None:
        """Waits for a checkpoint that is newer than those there are now."""
        before = max(self.steps(), default=0)

        def missing() -> str:
            assert self.is_running, self.output()
            return "" if max(self.steps(), default=0) > before else f"the newest is still that at step {before}"

        wait_for("a new checkpoint is committed", missing, within_s, lambda: self.output()[-3000:])

    def epoch(self) -> int:
        """Returns the epoch that was told last, counted from 1."""
        return int(re.findall(r"epoch (\d+)/", self.output())[-1])

    def steps(self) -> list[int]:
        """Returns the steps of the committed checkpoints."""
        hdfs = self._hadoop.hdfs
        has_any = "checkpoints" in hdfs.names(self.run_path)  # made by the first upload
        names = hdfs.names(f"{self.run_path}/checkpoints") if has_any else []
        return [int(name.removeprefix("step-")) for name in names if name.startswith("step-")]
