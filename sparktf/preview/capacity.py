"""The gang against what there is: the slots of a master, YARN's hosts, or this machine."""

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
    """What there is.

    Attributes:
        hosts: YARN's, by lower-case name; None where YARN is not asked, or does not answer.
    """

    forecast: RoomForecast
    hosts: Mapping[str, int] | None = None

    def fits(self, host: str) -> int | None:
        """Returns how many executors a host has room for now; None where nobody knows."""
        if self.hosts is None:
            return None
        short = host.lower().partition(".")[0]
        same = [count for name, count in self.hosts.items() if name.partition(".")[0] == short]
        return self.hosts.get(host.lower(), same[0] if len(same) == 1 else 0)


def room_on_yarn(config: JobConfig, slots: Slots, step_mib: int, hosts: Sequence[YarnHost] | None) -> Capacity:
    """Returns what YARN has, and how much of the gang there is memory for now.

    Memory alone counts, as YARN's schedulers do by default; what a queue may take of it is not looked at.

    Args:
        step_mib: Containers are multiples of it.
        hosts: None where YARN does not answer.
    """
    executor, *driver = (container.allocated_mib(step_mib) for container in containers(config))
    nodes = config.cluster.nodes
    forecast = RoomForecast(
        master=slots.master.url,
        nodes=nodes,
        node_mib=executor,
        driver_mib=driver[0] if driver else None,
        said="YARN does not say what it has: its REST API does not answer",
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
    """Returns what this machine has, where all runs on it."""
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
    """Returns what is known of a cluster that cannot be asked."""
    return Capacity(
        RoomForecast(
            master=slots.master.url,
            nodes=config.cluster.nodes,
            node_mib=config.cluster.node_memory.mib,
            said=f"{slots.master.url} is not asked what it has",
        )
    )


def machine_memory(meminfo: Path) -> tuple[int | None, int | None]:
    """Returns this machine's memory, and how much of it is free, in MiB; None where it does not say."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines() if ":" in line)
        return tuple(int(lines[key].split()[0]) // 1024 for key in ("MemTotal", "MemAvailable"))  # type: ignore[return-value]
    except (OSError, KeyError, ValueError, IndexError):
        return None, None
