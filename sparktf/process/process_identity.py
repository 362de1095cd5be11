"""Identifies a process by its number and start time: numbers are used again."""

from __future__ import annotations

import os
from pathlib import Path


def process_of(pid: int) -> tuple[str, int, str]:
    """Returns a process's name, parent and start time; "", 0 and "?" if it does not exist."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return "", 0, "?"
    fields = after.split()
    return before.partition("(")[2], int(fields[1]), fields[19]


def own_identity() -> str:
    """Returns "<pid>@<start time>" of this process."""
    return f"{os.getpid()}@{process_of(os.getpid())[2]}"


def is_alive(identity: str) -> bool:
    """Whether the process "<pid>@<start time>" still exists."""
    pid, _, start = identity.partition("@")
    return process_of(int(pid))[2] == start
