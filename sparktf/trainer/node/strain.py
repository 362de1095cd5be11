"""The strain on a node's host, which keeps it from computing, as Linux counts it; read at heartbeats."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from sparktf.results.pace import Strain

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def strain(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> Strain:
    """Returns the counters of this host, and of this process's control group; those that it lacks are None."""
    return Strain(
        at_s=time.monotonic(),
        steal_s=_steal_s(proc),
        throttled_s=_throttled_s(proc, cgroups),
        memory_s=_memory_s(proc),
    )


def _steal_s(proc: Path) -> float | None:
    """Returns the eighth number behind "cpu": the processors' time, in ticks, that the hypervisor gave to others."""
    with suppress(OSError, ValueError, IndexError), (proc / "stat").open() as file:
        ticks = int(file.readline().split()[8])
        return ticks / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
    return None


def _throttled_s(proc: Path, cgroups: Path) -> float | None:
    with suppress(OSError, ValueError):
        for folder in _folders((proc / "self/cgroup").read_text(), cgroups):
            with suppress(OSError, ValueError):
                counts = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
                if "throttled_usec" in counts:
                    return int(counts["throttled_usec"]) / 1e6
                if "throttled_time" in counts:  # Of cgroup v1, in nanoseconds
                    return int(counts["throttled_time"]) / 1e9
    return None


def _folders(groups: str, cgroups: Path) -> list[Path]:
    """Returns where the counters of a process's group may be: in a container its own group is the root."""
    found = []
    for line in groups.splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0" and not controllers:
            found += [cgroups / group.lstrip("/"), cgroups]
        elif "cpu" in controllers.split(","):
            found += [cgroups / controllers / group.lstrip("/"), cgroups / controllers, cgroups / "cpu"]
    return found


def _memory_s(proc: Path) -> float | None:
    with suppress(OSError, ValueError, IndexError):
        some = (proc / "pressure/memory").read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return None
