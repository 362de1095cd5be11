"""A bounded program that the driver starts, and that ends with the driver.

Run as a script, this becomes the program, once the kernel has been asked to end it with its parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from sparktf.knobs import KNOBS
from sparktf.process.prctl import die_with

_NOT_STARTED = 127
"""As in shells."""

_SPARKS_OWN = ("PYSPARK_GATEWAY", "_SPARK_AUTH_SECRET")
"""Prefixes of the variables that give access to the driver's JVM."""

_PYTHONPATH = "SPARKTF_PYTHONPATH"
"""The program's own PYTHONPATH; the process that becomes it first has the driver's."""

_KEPT_LINES = 100
_LINE_NBYTES = 2000


class Ended(NamedTuple):
    """The end of an errand."""

    code: int | None  # The program's exit code, negative for a signal; None if it was killed at its time limit
    lines: list[str]  # The last ones that it wrote, to either output

    def complaint(self, limit_s: float) -> str | None:
        """Returns the failure, with the last line as the reason; None for success."""
        if self.code == 0:
            return None
        wrong = f"ended with exit code {self.code}" if self.code is not None else f"was ended after {limit_s:g} s"
        return f"{wrong}: {self.lines[-1]}" if self.lines else wrong


class Errand:
    """A running program."""

    def __init__(
        self, command: Sequence[str], content: bytes, limit_s: float, variables: Mapping[str, str] | None = None
    ) -> None:
        """Starts it, without a shell.

        Args:
            content: Its standard input.
            limit_s: Time until it is killed, with all processes that it has started.
            variables: Additions to the driver's environment.

        Raises:
            OSError: this machine starts no process, or stores no input.
        """
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._is_late = False
        with tempfile.TemporaryFile() as stdin:  # not a pipe: a program that reads nothing must not block us
            stdin.write(content)
            stdin.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(os.getpid()), *command],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment_of(variables or {}),
                process_group=0,  # Ctrl-C reaches the driver alone, which stops things in order
            )
        self._reader = threading.Thread(target=self._read, name="errand", daemon=True)
        self._reader.start()
        self._timer = threading.Timer(limit_s, self._time_out)
        self._timer.daemon = True
        self._timer.start()

    def wait(self, limit_s: float | None = None) -> Ended:
        """Returns its end, once it has ended or its time is over; `limit_s` limits that from now."""
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(limit_s)
            self._time_out()
            code = self._process.wait()
        finally:
            self._timer.cancel()
            self._kill()
        self._reader.join(KNOBS.last_output_s)
        return Ended(None if self._is_late else code, list(self._lines))

    def _time_out(self) -> None:
        if self._process.poll() is None:
            self._is_late = True
            self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while line := output.readline(_LINE_NBYTES):
                if text := line.decode(errors="replace").rstrip():
                    self._lines.append(text)


def driver_path() -> str:
    """Returns the driver's import path, for a program in its own Python."""
    return os.pathsep.join(place for place in sys.path if place)


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the driver's environment without the variables that open its JVM, with the program's `variables`."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(_SPARKS_OWN)} | dict(variables)
    kept = {_PYTHONPATH: own["PYTHONPATH"]} if "PYTHONPATH" in own else {}
    return {**own, **kept, "PYTHONPATH": driver_path()}


def _own_environment() -> dict[str, str]:
    """Returns the program's environment, within a process of this file."""
    given = {key: value for key, value in os.environ.items() if key not in (_PYTHONPATH, "PYTHONPATH")}
    return given | ({"PYTHONPATH": os.environ[_PYTHONPATH]} if _PYTHONPATH in os.environ else {})


def main(arguments: Sequence[str]) -> None:
    """Becomes a program. Returns only if it cannot, after it has printed the reason.

    Args:
        arguments: Id of the process to end with; the program, and its arguments.
    """
    parent, *command = arguments
    if not die_with(int(parent)):
        return
    try:
        os.execvpe(command[0], command, _own_environment())
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.exit(_NOT_STARTED)
