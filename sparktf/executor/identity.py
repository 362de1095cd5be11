"""Identifies the executor of this Python worker by its parent processes: Spark does not tell workers."""

from __future__ import annotations

import os

from sparktf.process.process_identity import process_of

_LEVELS = 3


def executor_identity() -> str:
    """Returns "<pid>@<start time>" of the JVM that this worker serves.

    A worker is forked by a daemon, and an executor may have several daemons: one for each environment. Without a JVM
    above it, as in tests, the identity is the parent's.
    """
    pid = os.getppid()
    for _ in range(_LEVELS):
        name, parent, start = process_of(pid)
        if name == "java":
            return f"{pid}@{start}"
        pid = parent
    pid = os.getppid()
    return f"{pid}@{process_of(pid)[2]}"
