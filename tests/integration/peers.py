"""What scripts of TensorFlowOnSpark leave, by the real package, whose answers are recorded, and by ours.

`make peers` asks the real package again and records what it says. Executors are as many as nodes, and have one slot
each: the real package needs it so.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from integration.sandbox import REPO, Sandbox

SCRIPTS = Path(__file__).parent / "peer"
RECORD = SCRIPTS / "answers.json"
# The real package gets along with one session for the first ones, in this order, and needs one for each of the others.
FED = ["side_by_side", "fed_squares", "uneven_feed", "enough_rows", "fed_keras", "estimated", "evaluated"]
READ = ["read_keras", "served"]
STAGES = ["before", "during", "after", "reserving"]
RAISING = [f"raising --cluster_size 1 --when {when}" for when in STAGES]
CONNECTORS = REPO / ".connectors"
OURS = ["-m", "sparktf.compat.tensorflowonspark"]
TWO, ONE = "local-cluster[2,1,1024]", "local[1]"
LIMIT_S = 400.0

_NAMES = "names"
_PATH = re.compile(r"(?<![\w.])/[^\s'\",:)]+")


class Answers:
    """What scripts have left, by their lines: the files that they write as JSON, and the names of all files."""

    def __init__(self, left: Mapping[str, Mapping[str, Any]]) -> None:
        self._left = left

    @classmethod
    def recorded(cls) -> Answers:
        """Returns those of the real package, as `make peers` has kept them."""
        return cls(json.loads(RECORD.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, folder: Path) -> Answers:
        """Returns those in a folder, with a folder of each script."""
        return cls({path.name: _left_in(path) for path in sorted(folder.iterdir())})

    def told(self, line: str, name: str) -> Any:
        """Returns what is in a file of a script's."""
        return self._of(line)[name]

    def nodes(self, line: str) -> list[Any]:
        """Returns what nodes have written, by their numbers."""
        return [said for name, said in sorted(self._of(line).items()) if name.startswith("node-")]

    def files(self, line: str) -> list[str]:
        """Returns the names of all files of a script's."""
        names: list[str] = self._of(line)[_NAMES]
        return names

    def record(self) -> None:
        """Keeps them as the real package's: without the places of this machine."""
        kept = {
            line: {name: _without_places(said) for name, said in left.items()}
            for line, left in self._left.items()
            if line != "records"  # what ours makes of its files has to be asked each time
        }
        RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")

    def _of(self, line: str) -> dict[str, Any]:
        """Returns a copy: tests take out of it what they have compared."""
        found: dict[str, Any] = json.loads(json.dumps(self._left[line.replace(" ", "-").replace("--", "")]))
        return found


def _left_in(folder: Path) -> dict[str, Any]:
    told = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    return {**told, _NAMES: sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())}


def _without_places(said: Any) -> Any:
    """Returns an answer of which an error's text has its own lines alone, and no path of this machine."""
    if not isinstance(said, dict) or "said" not in said:
        return said
    errors = [line for line in said["said"].splitlines() if "Error: " in line]
    return {**said, "said": "\n".join(_PATH.sub("/...", line) for line in dict.fromkeys(errors)), "seconds": 0.0}


class Process:
    """A process that runs scripts one after another."""

    def __init__(self, folder: Path, master: str, module: list[str], *arguments: str, jar: str = "") -> None:
        self.sandbox = Sandbox(folder)
        conf = self.sandbox.settings(master, {"spark.task.maxFailures": "1", "spark.jars": jar})
        options = " ".join(shlex.join(["--conf", f"{key}={value}"]) for key, value in conf.items())
        environment = {**self.sandbox.environment(), "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"}
        with self.sandbox.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *module, str(SCRIPTS / "one_after_another.py"), *arguments],
                stdout=log,
                stderr=log,
                cwd=self.sandbox.cwd,
                env=environment,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Waits for its end, within a limit.

        Raises:
            AssertionError: it did not end, or failed.
        """
        try:
            code = self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not within {LIMIT_S:g} s\n{self.sandbox.report()}") from None
        assert code == 0, self.sandbox.report()

    def kill(self) -> None:
        """Ends what is left of it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.sandbox.family.kill()


def ask_the_real_package(root: Path) -> Answers:
    """Returns what all scripts leave by the real package; several at the same time, since most of it is waiting."""
    assert (CONNECTORS / ".installed").exists(), "there are no connectors: make integration installs them"
    (jar,) = CONNECTORS.glob("jars/tensorflow-hadoop-*.jar")
    theirs = root / "theirs"
    theirs.mkdir()
    processes = [
        Process(root / "fed", TWO, [], "kept", str(theirs), *FED),
        Process(root / "read", TWO, [], "fresh", str(theirs), *READ),
        Process(root / "raising", ONE, [], "fresh", str(theirs), "records", *RAISING[:-1], jar=str(jar)),
    ]
    try:
        for process in processes:
            process.wait()
        return Answers.of(theirs)
    finally:
        for process in processes:
            process.kill()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        ask_the_real_package(Path(folder)).record()
