"""The agent's side of the nursery, a process that has imported TensorFlow and forks trainers."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from sparktf.config.section import Switch
from sparktf.knobs import KNOBS
from sparktf.process.fork_server import ForkServer
from sparktf.process.module_search import find_module
from sparktf.process.rendezvous import forget, meet

_LOG_NBYTES = 2000
_GPUS = ("nvidia[0-9]*", "kfd")
_SOME_NEED = ("tf_keras",)
_READ_BY_IMPORTS = ("CUDA", "GRPC_", "HOME", "KERAS_", "LD_", "MALLOC_", "NVIDIA", "ONEDNN", "TF_", "XLA_")
"""Prefixes of environment variables that are read when TensorFlow is imported."""


class Nursery(ForkServer):
    """A process that imports the modules that trainers share, and forks trainers for all agents of an executor.

    The first agent starts it, on local[n] the driver; the others find its socket. It lives while an agent is connected,
    kills the trainers of an agent that is gone, and takes all trainers with it if it dies.
    """

    def __init__(
        self, base: Path, environment: Mapping[str, str], also: Sequence[str] = (), shared: Path | None = None
    ) -> None:
        """Finds the process that another agent has started in the same environment, or starts one.

        The calling thread must live while the process imports: PR_SET_PDEATHSIG is bound to the thread that started it.

        Args:
            also: Additional modules to import if they are installed.
            shared: Folder shared with other agents, which no other user can write to; None for no sharing.

        Raises:
            OSError: it cannot be started.
        """
        self._log = base / "nursery.log"
        self._pid: int | None = None
        self._place = (shared or base) / f"nursery-{_key(environment, also)}"

        def begin(listening: socket.socket) -> None:
            with self._log.open("wb") as log:
                arguments = (str(os.getpid()), str(self._place), *also)
                self._pid = self._start(listening, log, environment, arguments)

        super().__init__(meet(self._place, begin))

    def _start(
        self, listening: socket.socket, log: IO[bytes], environment: Mapping[str, str], arguments: Sequence[str]
    ) -> int:
        """Starts the process as a child of this one; returns its pid."""
        files = [(os.POSIX_SPAWN_DUP2, file, to) for to, file in enumerate((listening.fileno(), *[log.fileno()] * 2))]
        command = [sys.executable, "-P", "-m", "sparktf.trainer.nursery", *arguments]
        return os.posix_spawn(sys.executable, command, environment, file_actions=files)

    @property
    def is_own(self) -> bool:
        """Whether this agent has started it."""
        return self._pid is not None

    def _ended(self) -> OSError:
        """Returns an error that describes the process's end."""
        died = super()._ended()
        if self._pid is None:
            return died
        code = self._kill(self._pid)
        said = self._log.read_bytes()[-_LOG_NBYTES:].decode(errors="replace").strip().splitlines()
        return OSError(f"it died with exit code {code}" + (f": {said[-1]}" if said else ""))

    def _kill(self, pid: int) -> int:
        """Ends the process, which no other agent uses; returns its exit code."""
        self._pid = None
        os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        """Disconnects, which ends the trainers of this agent; the process ends with its last agent."""
        is_over = self.is_importing() or self._dead
        if not is_over:
            self._socket.shutdown(socket.SHUT_WR)
            while answer := self._hear(KNOBS.nursery_answer_s):
                is_over = "over" in answer
        if self._pid is not None and is_over:
            self._kill(self._pid)
        if is_over:
            forget(self._place)
        self._dead = True
        self._socket.close()
        self._log.unlink(missing_ok=True)


def named_in(module: str, path: Sequence[str]) -> tuple[str, ...]:
    """Returns the optional modules that a model's file names: to import them always would cost other models time."""
    found = find_module(module, path)
    if found is None or not found.has_location or found.origin is None:
        return ()
    with suppress(OSError):
        text = Path(found.origin).read_bytes()  # a module in a zip has no such file
        return tuple(name for name in _SOME_NEED if name.encode() in text)
    return ()


def _key(environment: Mapping[str, str], also: Sequence[str]) -> str:
    """Returns a hash of everything that affects the imports: equal for all agents that can share a nursery."""
    alike = {name: value for name, value in environment.items() if name.startswith(_READ_BY_IMPORTS)}
    return hashlib.sha256(json.dumps([sys.executable, alike, list(also)], sort_keys=True).encode()).hexdigest()[:16]


def wants_nursery(setting: Switch, gpus: Sequence[str] | None = None) -> bool:
    """Returns whether to fork trainers here: `auto` means on Linux without visible GPUs; see `sees_gpu`."""
    if setting != "auto":
        return setting == "on"
    return sys.platform == "linux" and not sees_gpu(gpus)


def sees_gpu(gpus: Sequence[str] | None = None) -> bool:
    """Whether a trainer here sees a GPU: one of those that Spark gave its task, else any of this machine."""
    if gpus is not None:
        return bool(gpus)
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(found for pattern in _GPUS for found in Path("/dev").glob(pattern))
