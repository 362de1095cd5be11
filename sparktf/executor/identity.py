"""Which executor this Python worker belongs to. Spark does not say; the processes above it do."""

from __future__ import annotations

import os
from pathlib import Path

_LEVELS = 3


def executor_identity() -> str:
    """Returns "<pid>@<start time>" of the JVM that this worker serves.

    A worker is forked by a daemon, and an executor may have several daemons: one for each environment. Without a JVM
    above it, as in tests, it is the parent's.
    """
    pid = os.getppid()
    for _ in range(_LEVELS):
        name, parent, start = _process(pid)
        if name == "java":
            return f"{pid}@{start}"
        pid = parent
    pid = os.getppid()
    return f"{pid}@{_process(pid)[2]}"


def _process(pid: int) -> tuple[str, int, str]:
    """Returns a process's name, parent and start time."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return "", 0, "?"
    fields = after.split()
    return before.partition("(")[2], int(fields[1]), fields[19]
