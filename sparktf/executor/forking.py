"""Trainers by fork: the agent's side of the nursery, which has imported TensorFlow (`sparktf.trainer.nursery`)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from sparktf.config.section import Switch
from sparktf.knobs import KNOBS
from sparktf.module_search import find_module
from sparktf.prctl import adopt_orphans

_MESSAGE_NBYTES = 4096
_LOG_NBYTES = 2000
_GPUS = ("nvidia[0-9]*", "kfd")
_SOME_NEED = ("tf_keras",)


class ForkedProcess:
    """A trainer that the nursery has forked, a child of this process: as much of `subprocess.Popen` as is needed."""

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = stdin
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        code = self._reap(0)
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


class Nursery:
    """A process that imports what trainers share, and then forks them.

    It must be started by a thread that lives as long as trainers are to live: the kernel ends the nursery with it.
    Trainers become children of this process, which adopts all orphans below it until `close`.
    """

    def __init__(self, base: Path, environment: Mapping[str, str], also: Sequence[str] = ()) -> None:
        """Starts the process.

        Args:
            base: Folder for what it writes.
            environment: What trainers get, too.
            also: Modules that it imports beside those that every trainer needs, where they are installed.

        Raises:
            OSError: this system has no such processes.
        """
        if not adopt_orphans(wanted=True):
            raise OSError("the kernel gives orphans to init alone")
        self._log = base / "nursery.log"
        self._began_s = time.monotonic()
        self._ready = False
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its, self._log.open("wb") as log:
            self._process = self._start(its, log, environment, also)

    def _start(
        self, its: socket.socket, log: IO[bytes], environment: Mapping[str, str], also: Sequence[str]
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sparktf.trainer.nursery", str(os.getpid()), *also],
            stdin=its.fileno(),
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_importing(self) -> bool:
        """Whether it lives, and cannot fork yet."""
        if not self._ready and self._process.poll() is None:
            self._socket.setblocking(False)
            with suppress(BlockingIOError, OSError):
                self._ready = bool(self._socket.recv(_MESSAGE_NBYTES))
        return not self._ready and self._process.poll() is None

    def age_s(self) -> float:
        """Returns how long ago it was started."""
        return time.monotonic() - self._began_s

    def fork(self, work: Path, log: IO[bytes]) -> ForkedProcess:
        """Has it fork a trainer.

        Args:
            work: Folder for the trainer's temporary files.
            log: What the trainer says goes there.

        Raises:
            OSError: it cannot, or it has died. After anything but a refusal it is ended, and forks no more.
        """
        if not self._ready:
            raise self._ended("it has not finished importing" if self._process.poll() is None else "it died")
        reading, writing = os.pipe()
        stdin = os.fdopen(writing, "wb")
        try:
            answer = self._ask(work, reading, log)
            if answer.get("parent") != os.getpid():
                raise OSError(f"it cannot fork: {answer.get('refused', 'its trainers are not adopted')}")
        except BaseException:
            stdin.close()  # a trainer that comes all the same reads nothing, and ends
            raise
        finally:
            os.close(reading)
        return ForkedProcess(int(answer["pid"]), stdin)

    def _ask(self, work: Path, reading: int, log: IO[bytes]) -> dict[str, Any]:
        try:
            self._socket.settimeout(KNOBS.nursery_answer_s)
            socket.send_fds(self._socket, [json.dumps({"work": str(work)}).encode()], [reading, log.fileno()])
            answer = self._socket.recv(_MESSAGE_NBYTES)
        except TimeoutError:
            raise self._ended(f"it did not answer within {KNOBS.nursery_answer_s:g} s") from None
        except OSError as e:
            raise self._ended("it died") from e
        if not answer:
            raise self._ended("it died")
        found: dict[str, Any] = json.loads(answer)
        return found

    def _ended(self, why: str) -> OSError:
        """Ends the process; returns the error that tells of it."""
        self._process.kill()
        code = self._process.wait()
        said = self._log.read_bytes()[-_LOG_NBYTES:].decode(errors="replace").strip().splitlines()
        return OSError(f"{why}, exit code {code}" + (f": {said[-1]}" if said else ""))

    def close(self) -> None:
        """Ends it. Trainers live on."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        adopt_orphans(wanted=False)
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


def wants_nursery(setting: Switch) -> bool:
    """Returns whether trainers are to be forked here: `auto` is on but where a GPU can be seen, or it is no Linux."""
    if setting != "auto":
        return setting == "on"
    return sys.platform == "linux" and not _sees_gpu()


def _sees_gpu() -> bool:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(found for pattern in _GPUS for found in Path("/dev").glob(pattern))
