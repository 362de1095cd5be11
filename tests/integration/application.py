"""A process with one SparkSession that trains as often as a test says."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.disk import Disk
from integration.sandbox import RunFolder, Sandbox

from sparktf.results.result import RunResult

_HOST = Path(__file__).parent / "host.py"
_START_S = 240.0
_TRAIN_S = 400.0


@dataclass(frozen=True)
class Outcome:
    """How one `train()` ended.

    Attributes:
        error: Class of what it raised; "" if it returned.
        result: What it returned, or what the error carries.
        output: What it showed.
    """

    error: str
    message: str
    verdict: int
    result: RunResult | None
    output: str

    @property
    def done(self) -> RunResult:
        """The result of a run that must be done."""
        assert self.result is not None and not self.error, f"{self.error}: {self.message}\n{self.output}"
        return self.result

    @property
    def failed(self) -> RunResult:
        """The result of a run that must have failed."""
        assert self.result is not None and self.error, self.output
        return self.result


class Application:
    """The test's side of `host.py`."""

    def __init__(
        self, sandbox: Sandbox, master: str, conf: Mapping[str, str] | None = None, disks: Sequence[Disk] = ()
    ) -> None:
        """Starts the process and waits until its session is there."""
        self.sandbox = sandbox
        self.family = sandbox.family
        self._gang: Mapping[str, Any] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._commands, self._awaited = 0, 1  # it says when its session is there
        with sandbox.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(part for disk in disks for part in disk.prefix()),
                    sys.executable,
                    str(_HOST),
                    json.dumps(sandbox.settings(master, conf or {})),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=sandbox.cwd,
                env=sandbox.environment(),
                start_new_session=True,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen, name="answers", daemon=True)
        self._listener.start()
        self._answer(_START_S)

    def share_gang(self, config: Mapping[str, Any]) -> None:
        """Has trainings share a gang from now on, rather than starting nodes for each of them.

        Args:
            config: Reserves as many nodes as any training needs, by training once.
        """
        self._gang = dict(config)

    def train(
        self,
        config: Mapping[str, Any],
        run_id: str | None = None,
        frame: str | None = None,
        beside: Path | None = None,
        *,
        own_gang: bool = False,
        **options: Any,
    ) -> Outcome:
        """Trains once; see `begin`."""
        self.begin(config, run_id, frame, beside, own_gang=own_gang, **options)
        return self.outcome()

    def train_together(self, *configs: Mapping[str, Any]) -> list[Outcome]:
        """Trains one configuration after the other on one `Cluster`."""
        self._tell({"together": [dict(config) for config in configs]}, answers=len(configs))
        return [self.outcome() for _ in configs]

    def begin(
        self,
        config: Mapping[str, Any],
        run_id: str | None = None,
        frame: str | None = None,
        beside: Path | None = None,
        *,
        own_gang: bool = False,
        **options: Any,
    ) -> None:
        """Begins to train and does not wait; `outcome` does.

        Args:
            frame: `module:function` that makes the DataFrame or RDD to train on, of the session and `options`.
            beside: Where the configuration's file lies, as it were.
            own_gang: Call `train()`, which starts nodes and ends them, also where trainings share a gang.
        """
        made = {"builder": frame, "options": options} if frame is not None else None
        told = {"run_id": run_id, "frame": made, "beside": str(beside) if beside else None}
        self._tell({"train": dict(config), "gang": None if own_gang else self._gang, **told})

    def outcome(self, *, within_s: float = _TRAIN_S) -> Outcome:
        """Returns how the next training ends."""
        answer = self._answer(within_s)
        result = RunResult.model_validate(answer.pop("result")) if answer["result"] else None
        return Outcome(**{**answer, "result": result})

    def add_py_file(self, path: Path) -> None:
        """Calls `SparkContext.addPyFile`."""
        self._tell({"py_file": str(path)})
        self._answer(_START_S)

    def collect(self, builder: str, **options: Any) -> list[list[Any]]:
        """Returns the rows that Spark collects of the DataFrame that a `module:function` of `cases` makes."""
        self._tell({"collect": {"builder": builder, "options": options}})
        rows: list[list[Any]] = self._answer(_START_S)["rows"]
        return rows

    def score(self, config: Mapping[str, Any], day: str) -> tuple[int, str, str]:
        """Scores a day as `jobs/predict.py` does; returns the number of rows, the model's version and the place."""
        self._tell({"score": dict(config), "day": day})
        answer = self._answer(_TRAIN_S)
        return answer["rows"], answer["version"], answer["place"]

    def interrupt(self) -> None:
        """Sends SIGINT to the driver's Python process."""
        self._process.send_signal(signal.SIGINT)

    def run(self, config: Mapping[str, Any], run_id: str) -> RunFolder:
        """Returns the folder of a run."""
        return self.sandbox.run(config, run_id)

    def close(self) -> list[str]:
        """Ends the application in order, then what is left of it; returns what that was."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it has ended already, with a command unread
                self._process.stdin.close()
        left = self.family.wait(within_s=60)
        self.family.kill()
        self._process.wait()
        self._listener.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return left

    def _tell(self, command: dict[str, Any], answers: int = 1) -> None:
        while self._awaited:  # a test gave up: its trainers are not to be taken for those of the next one
            self._next(_TRAIN_S)
        assert self._process.stdin is not None
        self._commands += 1
        self._awaited = answers
        self._process.stdin.write(json.dumps({**command, "number": self._commands}) + "\n")
        self._process.stdin.flush()

    def _answer(self, within_s: float) -> dict[str, Any]:
        """Returns the next answer to the last command."""
        answer = self._next(within_s)
        assert answer.pop("to") == self._commands
        return answer

    def _next(self, within_s: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=within_s)
        except queue.Empty:
            raise AssertionError(f"the application did not answer within {within_s:g} s") from None
        if not line:
            self._answers.put(line)  # for who asks next
            raise AssertionError("the application has ended")
        self._awaited -= 1
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")
