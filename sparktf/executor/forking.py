"""Trainers by fork: the agent's side of the nursery, which has imported TensorFlow (`sparktf.trainer.nursery`)."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from sparktf.config.section import Switch
from sparktf.executor.rendezvous import forget, meet
from sparktf.knobs import KNOBS
from sparktf.process.module_search import find_module

_MESSAGE_NBYTES = 4096
_LOG_NBYTES = 2000
_GPUS = ("nvidia[0-9]*", "kfd")
_SOME_NEED = ("tf_keras",)
_READ_BY_IMPORTS = ("CUDA", "GRPC_", "HOME", "KERAS_", "LD_", "MALLOC_", "NVIDIA", "ONEDNN", "TF_", "XLA_")
"""How the names of variables begin that are read when TensorFlow is imported, or never again."""


class ForkedProcess:
    """A trainer that the nursery has forked: as much of `subprocess.Popen` as is needed.

    Attributes:
        parent: The nursery's process, with which it ends.
    """

    def __init__(self, pid: int, parent: int, stdin: IO[bytes], nursery: Nursery) -> None:
        self.pid = pid
        self.parent = parent
        self.stdin: IO[bytes] | None = stdin
        self._nursery = nursery
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        if self._code is None:
            self._code = self._nursery.exit_code(self.pid, wait_s=0.0)
        return self._code

    def wait(self) -> int:
        """Waits for the end of one that has ended, or is killed; returns the exit code."""
        if self._code is None:
            self._code = self._nursery.exit_code(self.pid, wait_s=KNOBS.nursery_answer_s)
        if self._code is None:
            self._code = -signal.SIGKILL  # nobody who would know is there to tell: the nursery is frozen
        return self._code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # the word of its end is on its way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """A process that imports what trainers share, and then forks them: one for all agents of an executor.

    The first agent starts it, on local[n] the driver; the others find its socket. It lives as long as one of them is
    connected, kills what it has forked for one that is gone, and takes its trainers with it if it dies.
    """

    def __init__(
        self, base: Path, environment: Mapping[str, str], also: Sequence[str] = (), shared: Path | None = None
    ) -> None:
        """Finds the process that another agent has started in the same environment, or starts one.

        It must be started by a thread that lives while it imports: the kernel ends it with that.

        Args:
            base: Folder of this agent alone.
            environment: That of its process.
            also: Modules that it imports beside those that every trainer needs, where they are installed.
            shared: Folder that all have in common who share it, and no other user can write to; None: nobody does.

        Raises:
            OSError: it cannot be started.
        """
        self._log = base / "nursery.log"
        self._pid: int | None = None
        self._ready = self._dead = False
        self._asked = 0
        self._codes: dict[int, int] = {}
        self._place = (shared or base) / f"nursery-{_key(environment, also)}"

        def begin(listening: socket.socket) -> None:
            with self._log.open("wb") as log:
                arguments = (str(os.getpid()), str(self._place), *also)
                self._pid = self._start(listening, log, environment, arguments)

        self._socket = meet(self._place, begin)

    def _start(
        self, listening: socket.socket, log: IO[bytes], environment: Mapping[str, str], arguments: Sequence[str]
    ) -> int:
        """Starts the process, a child of this one; returns its number."""
        files = [(os.POSIX_SPAWN_DUP2, file, to) for to, file in enumerate((listening.fileno(), *[log.fileno()] * 2))]
        command = [sys.executable, "-P", "-m", "sparktf.trainer.nursery", *arguments]
        return os.posix_spawn(sys.executable, command, environment, file_actions=files)

    @property
    def is_own(self) -> bool:
        """Whether this agent has started it."""
        return self._pid is not None

    def is_importing(self) -> bool:
        """Whether it lives, and cannot fork yet."""
        if not self._ready:
            self._hear(0.0)
        return not self._ready and not self._dead

    def has_ended(self) -> bool:
        """Whether it could fork, and is dead: not one that died importing, as another would."""
        while self._hear(0.0):
            pass
        return self._ready and self._dead

    def fork(self, environment: Mapping[str, str], log: IO[bytes]) -> ForkedProcess:
        """Has it fork a trainer.

        Args:
            environment: The trainer's, with where it finds modules (`PYTHONPATH`) and its own folder (`TMPDIR`).
            log: What the trainer says goes there.

        Raises:
            OSError: it cannot now, or it has died. Whoever is only late may fork the next one.
        """
        if self.is_importing():
            raise OSError("it has not finished importing")
        reading, writing = os.pipe()
        stdin = os.fdopen(writing, "wb")
        try:
            answer = self._ask(environment, reading, log)
            if "refused" in answer:
                raise OSError(f"it cannot fork: {answer['refused']}")
        except BaseException:
            stdin.close()  # a trainer that comes all the same reads nothing, and ends
            raise
        finally:
            os.close(reading)
        return ForkedProcess(answer["pid"], answer["parent"], stdin, self)

    def _ask(self, environment: Mapping[str, str], reading: int, log: IO[bytes]) -> dict[str, Any]:
        with tempfile.TemporaryFile() as said, suppress(OSError):  # that it is dead is heard below
            said.write(json.dumps(dict(environment)).encode())  # on YARN, there can be more than goes into a message
            said.seek(0)
            self._asked += 1
            socket.send_fds(self._socket, [str(self._asked).encode()], [reading, log.fileno(), said.fileno()])
        while answer := self._hear(KNOBS.nursery_answer_s):
            if answer.get("asked") == self._asked:
                return answer
        if not self._dead:
            raise OSError(f"it did not answer within {KNOBS.nursery_answer_s:g} s")
        raise self._ended()

    def exit_code(self, pid: int, wait_s: float) -> int | None:
        """Returns the exit code of a trainer, once, and None while that runs.

        Args:
            wait_s: How long it may take until it says something.
        """
        while pid not in self._codes and self._hear(wait_s):
            pass
        return self._codes.pop(pid, -signal.SIGKILL if self._dead else None)

    def _hear(self, wait_s: float) -> dict[str, Any]:
        """Returns what it says next, nothing where that does not come in time, or it is dead."""
        if self._dead:
            return {}
        self._socket.settimeout(wait_s)
        try:
            said = self._socket.recv(_MESSAGE_NBYTES)
        except (BlockingIOError, TimeoutError):
            return {}
        except OSError:
            said = b""
        if not said:
            self._dead = True
            return {}
        self._ready = True
        found: dict[str, Any] = json.loads(said)
        if "pid" in found:  # of one that had its number before, the end may have come too late for whoever waited
            self._codes.pop(found["pid"], None)
        if "exited" in found:
            self._codes[found["exited"]] = found["code"]
        return found

    def _ended(self) -> OSError:
        """Returns the error that tells of its end."""
        self._socket.close()
        if self._pid is None:
            return OSError("it died")
        code = self._kill(self._pid)
        said = self._log.read_bytes()[-_LOG_NBYTES:].decode(errors="replace").strip().splitlines()
        return OSError(f"it died, exit code {code}" + (f": {said[-1]}" if said else ""))

    def _kill(self, pid: int) -> int:
        """Ends the process, which no other agent can have a use for; returns its exit code."""
        self._pid = None
        os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        """Leaves it, with which the trainers end that it has forked for this agent; it ends with the last to leave."""
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
    """Returns what only some models need, and this one's file names: imported for all, it would cost the others.

    A model that gets at it some other way imports it itself.
    """
    found = find_module(module, path)
    if found is None or not found.has_location or found.origin is None:
        return ()
    with suppress(OSError):
        text = Path(found.origin).read_bytes()  # in a zip, there is no such file
        return tuple(name for name in _SOME_NEED if name.encode() in text)
    return ()


def _key(environment: Mapping[str, str], also: Sequence[str]) -> str:
    """Returns what those have in common that can have a nursery in common: all that shows when it imports."""
    alike = {name: value for name, value in environment.items() if name.startswith(_READ_BY_IMPORTS)}
    return hashlib.sha256(json.dumps([sys.executable, alike, list(also)], sort_keys=True).encode()).hexdigest()[:16]


def wants_nursery(setting: Switch) -> bool:
    """Returns whether trainers are to be forked here: `auto` is on but where a GPU can be seen, or it is no Linux."""
    if setting != "auto":
        return setting == "on"
    return sys.platform == "linux" and not _sees_gpu()


def _sees_gpu() -> bool:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(found for pattern in _GPUS for found in Path("/dev").glob(pattern))
