"""A command whose lines are read as they come, and of which nothing remains when it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress


class Command:
    """One process in a group of its own: what ends the worker's task must not end what the process has to stop."""

    def __init__(self, line: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Starts it.

        Args:
            env: Its environment; None for that of this process.

        Raises:
            OSError: it cannot be started.
        """
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=dict(env) if env is not None else None,
            process_group=0,
        )
        self._end = threading.Thread(target=self._end_others, daemon=True)
        self._end.start()

    def lines(self) -> Iterator[str]:
        """Yields its output line by line, until it has ended."""
        if (said := self._process.stdout) is not None:
            with said:
                yield from said

    def code(self) -> int:
        """Returns its exit code, once it has ended."""
        self._end.join()
        return self._process.wait()

    def stop(self, within_s: float) -> None:
        """Interrupts it as Ctrl-C does, and kills it if it has not ended in time."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        self._end.join(within_s)
        with suppress(ProcessLookupError):
            self._process.kill()

    def _end_others(self) -> None:
        """Ends what a command has left: it holds the output open, which would be read for ever."""
        # Not waited for as usual: until then its number, which is the group's, is nobody else's.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
