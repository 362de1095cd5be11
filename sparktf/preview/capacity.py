"""The gang's needs against the capacity of a master's slots, YARN's hosts, or this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sparktf.config.job import JobConfig
from sparktf.driver.spark.masters import Slots
from sparktf.driver.spark.yarn_settings import containers
from sparktf.preview.forecast import RoomForecast
from sparktf.submit.yarn import YarnHost

_MEMINFO = Path("/proc/meminfo")


class Capacity(NamedTuple):
    """The capacity of a cluster."""

    forecast: RoomForecast
    hosts: Mapping[str, int] | None = None  # YARN's, by lower-case name; None if YARN is not asked, or does not answer

    def fits(self, host: str) -> int | None:
        """Returns the number of executors that a host has room for now; None if unknown."""
        if self.hosts is None:
            return None
        short = host.lower().partition(".")[0]
        same = [count for name, count in self.hosts.items() if name.partition(".")[0] == short]
        return self.hosts.get(host.lower(), same[0] if len(same) == 1 else 0)


def room_on_yarn(config: JobConfig, slots: Slots, step_mib: int, hosts: Sequence[YarnHost] | None) -> Capacity:
    """Returns YARN's memory, and how much of the gang fits into it now.

    Only memory counts, as in YARN's schedulers by default; limits of a queue are ignored.

    Args:
        step_mib: Container sizes are multiples of it.
        hosts: None if YARN does not answer.
    """
    executor, *driver = (container.allocated_mib(step_mib) for container in containers(config))
    nodes = config.cluster.nodes
    forecast = RoomForecast(
        master=slots.master.url,
        nodes=nodes,
        node_mib=executor,
        driver_mib=driver[0] if driver else None,
        said="the capacity of YARN is unknown: its REST API does not answer",
    )
    if hosts is None:
        return Capacity(forecast)
    free = [host.free_mib for host in hosts]
    for mib in driver:  # it comes first, and may lie on any host: on the one with most room
        if free and max(free) >= mib:
            free[free.index(max(free))] -= mib
    facts = {
        "hosts": len(hosts),
        "memory_mib": sum(host.memory_mib for host in hosts),
        "free_mib": sum(host.free_mib for host in hosts),
        "vcores": sum(host.vcores for host in hosts),
        "free_vcores": sum(host.free_vcores for host in hosts),
        "fits": min(sum(mib // executor for mib in free), nodes),
        "said": "YARN, just now",
    }
    return Capacity(forecast.model_copy(update=facts), {host.host.lower(): host.free_mib // executor for host in hosts})


def room_here(config: JobConfig, slots: Slots) -> Capacity:
    """Returns this machine's memory, for runs that stay on it."""
    total_mib, free_mib = machine_memory(_MEMINFO)
    cores = len(os.sched_getaffinity(0))
    nodes, node_mib = config.cluster.nodes, config.cluster.node_memory.mib
    return Capacity(
        RoomForecast(
            master=slots.master.url,
            nodes=nodes,
            slots=slots.total,
            node_mib=node_mib,
            hosts=1,
            memory_mib=total_mib,
            free_mib=free_mib,
            vcores=cores,
            fits=None if free_mib is None else min(free_mib // node_mib, nodes),
            said="this machine",
        )
    )


def room_elsewhere(config: JobConfig, slots: Slots) -> Capacity:
    """Returns the forecast for a cluster that cannot be asked."""
    return Capacity(
        RoomForecast(
            master=slots.master.url,
            nodes=config.cluster.nodes,
            node_mib=config.cluster.node_memory.mib,
            said=f"the capacity of {slots.master.url} is unknown",
        )
    )


def machine_memory(meminfo: Path) -> tuple[int | None, int | None]:
    """Returns this machine's memory and the free part of it, in MiB; None if unknown."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines() if ":" in line)
        return tuple(int(lines[key].split()[0]) // 1024 for key in ("MemTotal", "MemAvailable"))  # type: ignore[return-value]
    except (OSError, KeyError, ValueError, IndexError):
        return None, None
