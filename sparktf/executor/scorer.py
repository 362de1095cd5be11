"""The client of an executor's scoring process: the first task starts it, the others find its socket.

Spark's Python workers are forked and reused, and must not hold TensorFlow; and an executor loads a model only once.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sparktf.clock import ListeningClock, SystemClock
from sparktf.errors import NodeLostError
from sparktf.executor.identity import executor_identity
from sparktf.executor.trainer_process import trainer_environment
from sparktf.feed.arrays.columns import Array
from sparktf.feed.arrays.shared import hear, tell
from sparktf.knobs import KNOBS
from sparktf.process.rendezvous import meet
from sparktf.wire.scored_model import BEAT, ScoredModel, error_of, settings_array

_MODULE = "sparktf.trainer.scoring"
_LOG_NBYTES = 4096
_OWED = 4
"""The most answers that may wait in the socket: with more, both sides might wait for the other one to read."""


class ScorerHome(NamedTuple):
    """Whose scoring process it is, and where its socket, log and files are."""

    owner: str  # Identity of the process with which it ends: `executor_identity`
    folder: Path
    said: str  # As messages have it: "of this executor"

    @classmethod
    def of_executor(cls) -> ScorerHome:
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
        return cls(executor_identity(), Path(folder), "of this executor")


class Scorer:
    """One task's connection to the scoring process."""

    def __init__(self, model: ScoredModel, home: ScorerHome | None = None) -> None:
        """Finds the process, or starts it, and waits until it has loaded the model.

        Args:
            home: Default: that of this task's executor.

        Raises:
            ModelContractError: the model cannot be loaded.
            NodeLostError: the process has ended, or hangs and was killed.
            StorageError: the model cannot be read.
            OSError: it cannot be started.
        """
        self._home = home or ScorerHome.of_executor()
        self._folder = self._home.folder
        self._owed = 0
        self._answers: deque[dict[str, Array]] = deque()
        executor = self._home.owner
        name = f"scorer-{executor.partition('@')[0]}-{_key(model)}"
        self._log = self._folder / f"{name}.log"
        self._place = self._folder / name
        self._process = 0
        self._clock = ListeningClock(SystemClock())
        while not self._meets(model, name, executor):
            pass

    def _meets(self, model: ScoredModel, name: str, executor: str) -> bool:
        """Returns whether a process has the model; False if it is about to die.

        A socket accepts connections until the last thread of a killed process is gone; a healthy one answers at once.
        """
        self._has_ended = False
        self._socket = meet(self._place, lambda listening: self._start(listening, name, executor))
        try:
            self._ask("load", settings_array(model))
            self._answer()
        except BaseException:
            self.close()
            if self._has_ended and not self._process:
                return False
            raise
        return True

    def _start(self, listening: socket.socket, name: str, executor: str) -> None:
        work = tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder)
        self._log.touch(mode=0o600)  # Spark's folder may be open to all users
        with self._log.open("wb") as log:
            files = [listening.fileno(), log.fileno(), log.fileno()]
            actions = [(os.POSIX_SPAWN_DUP2, file, to) for to, file in enumerate(files)]
            command = [sys.executable, "-P", "-m", _MODULE, executor, str(self._folder / name), work]
            self._process = os.posix_spawn(
                sys.executable, command, trainer_environment(Path(work)), file_actions=actions
            )

    def send(self, arrays: Mapping[str, Array]) -> None:
        """Sends rows; `receive` returns the outputs in the same order.

        Raises:
            ModelContractError: the model failed on earlier rows.
            NodeLostError: the process has ended, or hangs and was killed.
        """
        if self._owed == _OWED:
            self._answers.append(self._answer())
            self._owed -= 1
        self._ask("score", arrays)
        self._owed += 1

    def receive(self) -> dict[str, Array]:
        """Returns the outputs for rows that were sent: [rows, ...] each.

        Raises:
            ModelContractError: the model failed.
            NodeLostError: the process has ended, or hangs and was killed.
        """
        if self._answers:
            return self._answers.popleft()
        self._owed -= 1
        return self._answer()

    def close(self) -> None:
        """Disconnects; the process ends a while after its last task."""
        self._socket.close()

    def _ask(self, verb: str, arrays: Mapping[str, Array]) -> None:
        try:
            self._socket.settimeout(None)
            tell(self._socket, verb, arrays)
        except OSError as error:
            raise self._ended() from error

    def _answer(self) -> dict[str, Array]:
        began_s = heard_s = self._clock.now_s()
        while (heard := self._heard()) is None or heard[0].startswith(BEAT):
            now_s = self._clock.now_s()
            if heard is not None:
                heard_s, self._process = now_s, int(heard[0].removeprefix(BEAT))
            if (why := hangs(now_s - heard_s, now_s - began_s)) is not None:
                self._end()
                raise self._lost(why)
        verb, arrays = heard
        if verb == "error":
            raise error_of(arrays)
        return arrays

    def _heard(self) -> tuple[str, dict[str, Array]] | None:
        """Returns the next message; None if none comes for a moment."""
        try:
            self._socket.settimeout(KNOBS.scorer_look_s)
            return hear(self._socket)
        except TimeoutError:
            return None
        except (EOFError, OSError) as error:
            raise self._ended() from error

    def _end(self) -> None:
        """Kills the process, even a stopped one, so that the next try starts another."""
        if not self._process:  # it has never sent its pid
            self._place.unlink(missing_ok=True)
            return
        with suppress(ProcessLookupError):  # its socket is open, so its pid is not reused
            os.kill(self._process, signal.SIGKILL)
        with suppress(EOFError, OSError):  # wait for its end: the next try must not find it
            while True:
                hear(self._socket)

    def _ended(self) -> NodeLostError:
        self._has_ended = True
        return self._lost("has ended")

    def _lost(self, why: str) -> NodeLostError:
        said = ""
        if self._log.exists():
            said = self._log.read_bytes()[-_LOG_NBYTES:].decode(errors="replace").strip()
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "(nothing)")
        return NodeLostError(f"the scoring process {self._home.said} {why}; the last line of its log: {last}")


def hangs(silent_s: float, waited_s: float) -> str | None:
    """Returns why a scoring process hangs; None if it does not.

    Args:
        silent_s: Seconds since its last sign of life.
        waited_s: Seconds of waiting for an answer.
    """
    if silent_s > KNOBS.scorer_silent_s:
        return f"was silent for {silent_s:.0f} s and was killed"
    if waited_s > KNOBS.scorer_answer_s:
        return f"gave no answer for {waited_s:.0f} s and was killed"
    return None


def _key(model: ScoredModel) -> str:
    """Returns a hash that identifies a model's signature."""
    return hashlib.sha256(repr((model.key, model.signature, model.tags)).encode()).hexdigest()[:16]
