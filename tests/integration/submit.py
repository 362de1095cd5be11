"""`spark-submit jobs/train.py` as a process under test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from integration.sandbox import REPO, RunFolder, Sandbox

_CASES = Path(__file__).parent / "cases"
_JAVA_NOISE = "WARNING: Using incubator modules"


class Submit:
    """One `spark-submit`, in a session of its own as a terminal's foreground job has it.

    The models in `cases` travel by `--py-files`, as a user's do that do not lie beside the script.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        master: str,
        config: Mapping[str, Any],
        *arguments: str,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.family = sandbox.family
        self._config = config
        job = sandbox.folder / "job.yaml"
        job.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        settings = sandbox.settings(master, conf or {})
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        script = [str(REPO / "jobs/train.py"), "--config", str(job), *arguments]
        with sandbox.log.open("wb") as log:
            self._process = subprocess.Popen(
                [spark_submit(), *options, "--py-files", _zip_cases(sandbox), *script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=sandbox.cwd,
                env=sandbox.environment(),
                start_new_session=True,
            )

    def run(self, run_id: str) -> RunFolder:
        """Returns the folder of its run."""
        return self.sandbox.run(self._config, run_id)

    def wait(self, *, within_s: float) -> int:
        """Returns the exit code; negative for a signal.

        Raises:
            AssertionError: it did not end in time.
        """
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"spark-submit did not end within {within_s:g} s") from None

    def press_ctrl_c(self) -> None:
        """Sends what a terminal sends: SIGINT to the whole foreground."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """Does what a scheduler does: SIGTERM to the process that it started."""
        self._process.terminate()

    def output(self) -> list[str]:
        """Returns what a person sees, line by line."""
        lines = self.sandbox.log.read_text(errors="replace").splitlines()
        return [line for line in lines if not line.startswith(_JAVA_NOISE)]


def spark_submit() -> str:
    return str(Path(sys.executable).parent / "spark-submit")


def _zip_cases(sandbox: Sandbox) -> str:
    path = sandbox.folder / "cases.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for source in sorted(_CASES.glob("*.py")):
            zipped.write(source, f"cases/{source.name}")
    return str(path)
