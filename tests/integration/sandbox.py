"""The folders that one Spark application under test writes to, and reading what a run left in them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyspark
from integration.processes import MARK, Family

from sparktf.results.events import Event, read_events
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory, checkpoint_step

REPO = Path(__file__).parents[2]
QUIET = REPO / "sparktf/driver/spark/log4j2.properties"

# What an executor's JVM unpacks and fetches, and has no time to delete when it is killed.
_OF_EXECUTORS = ("liblz4-java", "snappy-", "sparktf-code-")

# Spark lives for seconds here. Without the second compiler it takes half the processor time from its start to its end,
# and a fifth less again without verifying the classes of released jars; with one core a JVM the plain collector does.
# With classes from an archive (`make classes`) it is a third less once more, where they are found in the same jars.
QUICK_START = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    f"-XX:SharedArchiveFile={REPO}/.pytest_cache/spark-classes.jsa -Xlog:cds=off -Xlog:cds+dynamic=off"
)

_FOREIGN = ("SPARK_", "PYSPARK_", "PYTEST_")


Seen = TypeVar("Seen", bound=Event)


class RunFolder:
    """The run directory of one run, seen from outside."""

    def __init__(self, paths: RunDirectory) -> None:
        self._paths = paths
        self.path = Path(paths.path)
        self.model = Path(paths.model)
        self.tensorboard = Path(paths.tensorboard)
        self.checkpoints = Path(paths.checkpoints)

    def result(self) -> RunResult:
        """Returns what result.json holds."""
        return RunResult.model_validate_json(Path(self._paths.result).read_bytes())

    def committed(self) -> list[int]:
        """Returns the steps of the committed checkpoints."""
        folders = [manifest.parent.name for manifest in self.checkpoints.glob("step-*/MANIFEST.json")]
        return sorted(step for folder in folders if (step := checkpoint_step(folder)) is not None)

    def manifest(self, step: int) -> dict[str, Any]:
        """Returns the manifest of the checkpoint at a step."""
        found: dict[str, Any] = json.loads(Path(self._paths.checkpoint(step), "MANIFEST.json").read_bytes())
        return found

    def events(self, kind: type[Seen]) -> list[Seen]:
        """Returns the events of one kind."""
        segments = sorted(Path(self._paths.events).glob("*.jsonl"))
        entries = (entry for segment in segments for entry in read_events(segment.read_bytes().splitlines()))
        return [entry.event for entry in entries if isinstance(entry.event, kind)]


class Sandbox:
    """The folders of one Spark application, and an environment that keeps all that it writes inside of them.

    Attributes:
        runs: For `output.path`.
        cwd: Where its processes start.
        log: What it says, for people.
    """

    def __init__(self, folder: Path, packages: Path | None = None) -> None:
        """Makes the folders.

        Args:
            packages: Where another Spark is than this process's own.
        """
        packages = packages or own_packages()
        self.folder = folder
        self.runs = folder / "runs"
        self.cwd = folder / "cwd"
        self.log = folder / "output.log"
        self.family = Family()
        self._tmp = folder / "tmp"
        self._home = folder / "spark-home"
        named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))  # `make matrix`: another TensorFlow
        self._path = [*filter(None, (packages,)), REPO, *named]
        for made in (self.cwd, self._tmp, self._home):
            made.mkdir(parents=True)
        # Executors of local-cluster work in SPARK_HOME/work: a home made of links keeps them out of the installation.
        spark = Path(pyspark.__file__).parent if packages is None else packages / "pyspark"
        self._spark_python = spark / "python"
        for part in spark.iterdir():
            if part.name not in ("work", "python"):
                (self._home / part.name).symlink_to(part)

    def bring_zip(self) -> None:
        """Has Python workers take pyspark from Spark's own archive, as where pip has installed none.

        Else they take the environment's: what is in the archive is compiled by each of them anew, for half a second.
        """
        (self._home / "python").symlink_to(self._spark_python)

    def environment(self) -> dict[str, str]:
        """Returns the environment of its processes."""
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)},
            MARK: self.family.mark,
            "SPARK_HOME": str(self._home),
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={self._tmp} -XX:-UsePerfData {QUICK_START}",
            "TMPDIR": str(self._tmp),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(str, self._path)),
        }

    def settings(self, master: str, conf: Mapping[str, str]) -> dict[str, str]:
        """Returns the application's Spark configuration."""
        return {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(self._tmp),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{QUIET}",
            "spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={self._tmp} -XX:-UsePerfData {QUICK_START}",
            **conf,
        }

    def run(self, config: Mapping[str, Any], run_id: str) -> RunFolder:
        """Returns the folder of one run."""
        return RunFolder(RunDirectory(str(self.runs), config["name"], run_id))

    def leftovers(self) -> list[str]:
        """Returns the files that an application which has ended left behind, other than its runs."""
        files = [p for folder in (self._tmp, self.cwd) for p in folder.rglob("*") if not p.is_dir()]
        return [str(p.relative_to(self.folder)) for p in files if not p.name.startswith(_OF_EXECUTORS)]

    def executor_logs(self) -> str:
        """Returns what the executors of local-cluster said."""
        return "\n".join(log.read_text(errors="replace") for log in sorted(self._home.glob("work/*/*/std*")))

    def report(self) -> str:
        """Returns what the application, its executors and its trainers said, and do, for a test that failed."""
        logs = [self.log, *sorted(self.runs.glob("*/*/logs/*.log"))]
        texts = {str(log): log.read_text(errors="replace") for log in logs if log.exists()}
        texts["executors"] = "\n".join(line for line in self.executor_logs().splitlines() if " INFO " not in line)
        said = "\n".join(f"--- {name}\n{_tail(text)}" for name, text in texts.items() if text)
        return f"{said}\n--- processes\n{self.family.doing()}"


def own_packages() -> Path | None:
    """Returns where this process's Spark lies, to whose processes it must be named; None if in the environment."""
    packages = Path(pyspark.__file__).parents[1]
    return None if packages.is_relative_to(sys.prefix) else packages


def _tail(text: str) -> str:
    """Returns the last lines of a text; of a countdown, its last one."""
    lines = [*text.splitlines(), ""]
    counts = [line.endswith(" s left") for line in lines]
    return "\n".join([lines[i] for i in range(len(lines) - 1) if not (counts[i] and counts[i + 1])][-60:])
