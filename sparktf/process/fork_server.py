"""The client of a fork server: a process that has imported what takes long, and forks others on request.

It is `sparktf.trainer.nursery`. Agents have their trainers forked by it, and a trainer the process that reads its
exported model.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from sparktf.knobs import KNOBS

PLACE = "SPARKTF_NURSERY"
"""The variable that tells forked processes where the server is found."""

_MESSAGE_NBYTES = 4096


class ForkedProcess:
    """A process forked by a server, with the needed part of `subprocess.Popen`'s interface.

    Attributes:
        parent: The server's process, with which it ends.
    """

    def __init__(self, pid: int, parent: int, stdin: IO[bytes], server: ForkServer) -> None:
        self.pid = pid
        self.parent = parent
        self.stdin: IO[bytes] | None = stdin
        self._server = server
        self._code: int | None = None

    def poll(self, wait_s: float = 0.0) -> int | None:
        """Returns the exit code; None while it runs. Waits up to `wait_s` for its end."""
        if self._code is None:
            self._code = self._server.exit_code(self.pid, wait_s=wait_s)
        return self._code

    def wait(self) -> int:
        """Waits for a process that has ended or was killed; returns its exit code."""
        if self._code is None:
            self._code = self._server.exit_code(self.pid, wait_s=KNOBS.nursery_answer_s)
        if self._code is None:
            self._code = -signal.SIGKILL  # the server, which alone knows the code, is frozen
        return self._code

    def send_signal(self, number: int) -> None:
        """Sends a signal if the process has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # the message of its end is on its way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A connection to a server. What it has forked on this connection is killed when that is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._ready = self._dead = False
        self._asked = 0
        self._codes: dict[int, int] = {}

    def await_ready(self, limit_s: float) -> None:
        """Waits for the word that it can fork; after the time limit, `fork` says that it cannot."""
        if not self._ready:
            self._hear(limit_s)

    def is_importing(self) -> bool:
        """Whether it runs, and cannot fork yet."""
        if not self._ready:
            self._hear(0.0)
        return not self._ready and not self._dead

    def has_ended(self) -> bool:
        """Whether it died when it could already fork; one that died while importing would do so again."""
        while self._hear(0.0):
            pass
        return self._ready and self._dead

    def fork(self, module: str, environment: Mapping[str, str], log: IO[bytes]) -> ForkedProcess:
        """Forks a process.

        Args:
            module: A module of `sparktf.trainer`, whose `main` it runs.
            environment: Its environment, with `PYTHONPATH` and its own folder as `TMPDIR`.
            log: File for its output.

        Raises:
            OSError: the server cannot fork now, or has died; if it is only late, it may fork the next one.
        """
        if self.is_importing():
            raise OSError("it has not finished importing")
        reading, writing = os.pipe()
        stdin = os.fdopen(writing, "wb")
        try:
            answer = self._ask(module, environment, reading, log)
            if "refused" in answer:
                raise OSError(f"it cannot fork: {answer['refused']}")
        except BaseException:
            stdin.close()  # a process that is forked too late finds its input closed, and ends
            raise
        finally:
            os.close(reading)
        return ForkedProcess(answer["pid"], answer["parent"], stdin, self)

    def _ask(self, module: str, environment: Mapping[str, str], reading: int, log: IO[bytes]) -> dict[str, Any]:
        with tempfile.TemporaryFile() as said, suppress(OSError):  # its death is noticed below
            # On YARN, it may be larger than a message.
            said.write(json.dumps({"module": module, "environment": dict(environment)}).encode())
            said.seek(0)
            self._asked += 1
            socket.send_fds(self._socket, [str(self._asked).encode()], [reading, log.fileno(), said.fileno()])
        while answer := self._hear(KNOBS.nursery_answer_s):
            if answer.get("asked") == self._asked:
                return answer
        if not self._dead:
            raise OSError(f"it did not answer within {KNOBS.nursery_answer_s:g} s")
        raise self._ended()

    def _ended(self) -> OSError:
        """Returns an error that describes the server's end."""
        self._socket.close()
        return OSError("it died")

    def close(self) -> None:
        """Ends the connection, and with it what was forked on it."""
        self._socket.close()

    def exit_code(self, pid: int, wait_s: float) -> int | None:
        """Returns a process's exit code, once; None while it runs. Waits up to `wait_s` for a message."""
        while pid not in self._codes and self._hear(wait_s):
            pass
        return self._codes.pop(pid, -signal.SIGKILL if self._dead else None)

    def _hear(self, wait_s: float) -> dict[str, Any]:
        """Returns the next message; an empty one if none comes in time, or it is dead."""
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
        if "pid" in found:  # the kernel may reuse a pid whose exit code nobody has fetched
            self._codes.pop(found["pid"], None)
        if "exited" in found:
            self._codes[found["exited"]] = found["code"]
        return found
