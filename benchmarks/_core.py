"""One core for a process."""

from __future__ import annotations

import contextlib
import os


def bind(index: int) -> None:
    """Binds all threads of this process, and those to come, to one of its cores, which indices take in turn."""
    cores = sorted(os.sched_getaffinity(0))
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), {cores[index % len(cores)]})
