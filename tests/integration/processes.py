"""Processes of an application under test, and waiting for them."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

MARK = "SPARKTF_TEST_FAMILY"

_POLL_S = 0.05
_STACKS_S = 20.0
_NO_TRAINERS = ("sparktf.trainer.nursery", "sparktf.trainer.scoring")

T = TypeVar("T")


def wait_for(what: str, found: Callable[[], T], *, within_s: float) -> T:
    """Returns what `found` returns as soon as that is true.

    Raises:
        AssertionError: it was not within `within_s`.
    """
    deadline_s = time.monotonic() + within_s
    while not (value := found()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        time.sleep(_POLL_S)
    return value


class Family:
    """All processes that come from one start. They are known by a mark in their environment, which orphans keep."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    def processes(self, text: str = "") -> list[psutil.Process]:
        """Returns the living members with a text in their command line, oldest first."""
        found = [process for process in psutil.process_iter() if self._is_member(process, text)]
        return sorted(found, key=lambda process: process.create_time())

    def trainers(self) -> list[psutil.Process]:
        """Returns the trainers; not the nurseries that they are forked from, which live as long as their agents.

        Nor what scores for an executor, which stays a minute after its last task.
        """
        others = [process for module in _NO_TRAINERS for process in self.processes(module)]
        return [process for process in self.processes("sparktf.trainer") if process not in others]

    def jvm(self) -> psutil.Process:
        """Returns the driver's JVM."""
        (found,) = self.processes("org.apache.spark.deploy.SparkSubmit")
        return found

    def driver(self) -> psutil.Process:
        """Returns the driver's Python process."""
        (found,) = (p for p in self.processes(".py") if p.name().startswith("python") and "-m" not in command_of(p))
        return found

    def wait(self, text: str = "", *, within_s: float = 60.0) -> list[str]:
        """Waits for the end of all members with a text in their command line; returns those that are left."""
        with suppress(AssertionError):
            wait_for("all have ended", lambda: not self.processes(text), within_s=within_s)
        return [_line(process) for process in self.processes(text)]

    def doing(self) -> str:
        """Returns where the living members are, their Python stacks too: of one that hangs, nothing else tells."""
        return "\n".join(doing(process) for process in self.processes())

    def kill(self) -> list[str]:
        """Kills all members; returns what they were."""
        found: list[str] = []
        while members := self.processes():
            for member in members:
                found.append(_line(member))
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(members, timeout=5)
        return found

    def _is_member(self, process: psutil.Process, text: str) -> bool:
        try:
            return (
                process.environ().get(MARK) == self.mark
                and process.status() != psutil.STATUS_ZOMBIE
                and text in " ".join(process.cmdline())
            )
        except psutil.Error:
            return False


def command_of(process: psutil.Process) -> list[str]:
    """Returns a process's command line; nothing where it has ended, also before its parent has heard of that."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended, also where whoever has inherited it does not ask for its exit code."""
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE or not process.is_running()
    return True


def executor_of(pid: int) -> psutil.Process:
    """Returns the executor's JVM that a process belongs to."""
    return next(p for p in psutil.Process(pid).parents() if "CoarseGrainedExecutorBackend" in " ".join(command_of(p)))


def doing(process: psutil.Process) -> str:
    """Returns what a process does: its state, the time that it has used, its threads' stacks if it is Python's."""
    line = _line(process)
    with suppress(psutil.Error):
        with process.oneshot():
            used = process.cpu_times()
            line += f"\n  {process.status()}, {process.num_threads()} threads, {used.user + used.system:.1f} s used"
            is_python = process.name().startswith("python")
        if is_python:
            spy = [str(Path(sys.executable).with_name("py-spy")), "dump", "--nonblocking", "--pid", str(process.pid)]
            try:
                done = subprocess.run(spy, check=False, capture_output=True, text=True, timeout=_STACKS_S)
                line += "\n" + (done.stdout or done.stderr)
            except subprocess.TimeoutExpired:
                line += f"\n  its stacks could not be read within {_STACKS_S:g} s"
    return line


def _line(process: psutil.Process) -> str:
    return f"{process.pid}: {' '.join(command_of(process))[-150:]}"
