"""A trainer's process and its log, under the control of its agent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from sparktf.executor.forking import Nursery
from sparktf.knobs import KNOBS
from sparktf.process.fork_server import ForkedProcess
from sparktf.process.log_noise import last_words
from sparktf.rundir import trainer_name
from sparktf.storage.file_systems import FileSystems
from sparktf.wire.control import Bootstrap, TrainerExited
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import Function, TrainerSpec

CODE = "sparktf-code-"
"""Prefix of folders with the user's code that the driver has sent."""

_TAIL_LINES = 40
_TAIL_CHARACTERS = 16_384
_READ_BYTES = 131_072
"""Of a log, for the lines among its last ones that say something."""

_MAX_ARENAS = 4


class TrainerProcess:
    """Starts a trainer (`python -m sparktf.trainer` or a fork), watches it, stops it, and keeps its output."""

    def __init__(
        self,
        spec: TrainerSpec,
        access: ControlAccess,
        base: Path,
        nursery: Nursery | None = None,
        gpus: Sequence[str] | None = None,
    ) -> None:
        """Starts the process.

        Args:
            base: Folder for the process's work folder and log.
            nursery: Forks the process; if it cannot, the log says so, and the process is spawned.
            gpus: See `trainer_environment`.
        """
        self._gpus = gpus
        self.spec = spec
        name = trainer_name(**spec.sender)
        self._work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        self._log = base / f"{name}.log"
        self._log_target = spec.rundir.log(name)
        self._shown_nbytes = 0
        self._stop_asked_s: float | None = None
        with self._log.open("wb") as log:
            self._process = self._fork(nursery, log) or self._spawn(log)
        parent = self._process.parent if isinstance(self._process, ForkedProcess) else os.getpid()
        bootstrap = Bootstrap(spec=spec, access=access, work=str(self._work), parent=parent)
        self._say(bootstrap.model_dump_json())

    def _fork(self, nursery: Nursery | None, log: IO[bytes]) -> ForkedProcess | None:
        """Forks the process by the nursery, if possible."""
        if nursery is None:
            return None
        try:
            return nursery.fork("sparktf.trainer", trainer_environment(self._work, self._gpus), log)
        except OSError as e:
            said = f"sparktf: the nursery cannot fork this trainer, so that it starts slowly: {e}\n"
            print(said, end="", file=sys.stderr)
            log.write(said.encode())
            log.flush()
            return None

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sparktf.trainer"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=trainer_environment(self._work, self._gpus),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Returns the exit code; None while it runs."""
        return self._process.poll()

    def show(self, *, whole: bool = False) -> None:
        """Copies what a function has printed since the last call to this process's own log, which is its executor's.

        Args:
            whole: Whether an unfinished line is copied, too.
        """
        if not isinstance(self.spec, Function) or self._log.stat().st_size == self._shown_nbytes:
            return
        with self._log.open("rb") as log, suppress(OSError):
            log.seek(self._shown_nbytes)
            text = log.read()
            end = len(text) if whole else 1 + max(text.rfind(b"\n"), text.rfind(b"\r"))
            self._shown_nbytes += end
            sys.stderr.write(text[:end].decode(errors="replace"))
            sys.stderr.flush()

    def ask_to_stop(self, now_s: float) -> None:
        """Sends SIGTERM once, and SIGKILL when `timeouts.stop` has passed since."""
        if self._stop_asked_s is None:
            self._stop_asked_s = now_s
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)  # a stopped process handles SIGTERM only when continued
        elif now_s - self._stop_asked_s > self.spec.timeouts.stop:
            self._process.kill()

    def kill(self) -> None:
        """Ends the process at once and waits for it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)  # lets a stopped process remove its folder
            self._process.kill()
        self._process.wait()
        self._clean()

    def collect(self, agent: str) -> TrainerExited:
        """Returns the report of the ended process, and copies its log to the run directory."""
        code = self._process.wait()
        tail = tail_of(self._log)
        where = self._log_target
        try:
            FileSystems(self.spec.hadoop).open(where, deadline_s=KNOBS.log_upload_s).upload(self._log, where)
        except OSError as e:
            where = f"{self._log} (not copied to the run directory: {e})"
        self._clean()
        return TrainerExited(
            agent=agent,
            **self.spec.sender,
            exit_code=code,
            time_s=time.time(),
            log=where,
            log_tail=tail,
        )

    def _say(self, line: str) -> None:
        pipe = self._process.stdin
        if pipe is None:
            return
        try:
            pipe.write(line.encode() + b"\n")
            pipe.flush()  # keep it open: its end tells the trainer that the agent is gone
        except BrokenPipeError:
            return  # it has died, as its exit code shows

    def _clean(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it died before it read everything
                self._process.stdin.close()
        shutil.rmtree(self._work, ignore_errors=True)
        with suppress(FileNotFoundError):  # it is cleaned already
            self.show(whole=True)
        self._log.unlink(missing_ok=True)


def trainer_environment(work: Path, gpus: Sequence[str] | None = None) -> dict[str, str]:
    """Returns the child's environment, with this task's `sys.path`, so that `--py-files` and `--archives` work there.

    Temporary files go to the work folder: TensorFlow deletes its own only in an orderly exit, which no trainer makes.

    Args:
        gpus: The addresses of the GPUs that it may see, as Spark gave them to its task; None for all of its machine.
    """
    # Each arena of glibc keeps the memory that it once had. Fed rows pass through threads that come and go: with the
    # default of eight arenas for each core, a trainer's memory grew by half while 50 M rows passed.
    arenas = min(max(len(os.sched_getaffinity(0)) // 2, 1), _MAX_ARENAS)
    return {
        "MALLOC_ARENA_MAX": str(arenas),
        # Else the first process of a GPU takes all of its memory; and addresses are those that its tools tell.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **os.environ,
        "PYTHONPATH": python_path(),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(work),
        **({} if gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}),
    }


def python_path() -> str:
    """Returns this task's `sys.path` for a child, the user's code first, before Spark's working folder."""
    places = [place for place in sys.path if place]
    return os.pathsep.join(sorted(places, key=lambda place: not Path(place).name.startswith(CODE)))


def tail_of(log: Path) -> str:
    """Returns the last lines of a log for whoever looks for a failure, bounded."""
    with log.open("rb") as f:
        f.seek(max(log.stat().st_size - _READ_BYTES, 0))
        return last_words(f.read().decode(errors="replace"), _TAIL_LINES)[-_TAIL_CHARACTERS:]
