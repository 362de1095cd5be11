"""A run over the click log, submitted to the mini cluster."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.submission import SMALL_CONF, Submission

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for

MODELS = Path(__file__).parent / "click_model.py"


class ClickRun(Submission):
    """One `sparktf submit`, with the models of `click_model.py` beside its configuration."""

    def __init__(
        self, hadoop: MiniHadoop, folder: Path, job: Mapping[str, Any], *arguments: str, run_id: str = ""
    ) -> None:
        self._run_id = run_id
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODELS, folder)
        small = {"driver_memory_mib": 512, "executor_memory_mib": 512, "conf": SMALL_CONF}
        config = {**job, "submit": {**small, **job.get("submit", {})}}
        super().__init__(hadoop, folder, config, *(("--run-id", run_id) if run_id else ()), *arguments)

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
