"""An agent that also tells what its host has, and which other nodes it reaches, for `sparktf doctor --nodes`."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from sparktf.executor.agent import Agent
from sparktf.executor.trainer_process import python_path
from sparktf.process.module_search import find_module
from sparktf.wire.control import Action, Order, Orders
from sparktf.wire.node_look import FreeDisk, NodeFacts, NodeLook, Peers, TriedLink

CONNECT_S = 3.0
"""Time for another node to take a connection: its kernel does, so a longer one is a firewall's, or a dead route's."""

_MEMINFO = Path("/proc/meminfo")


class LookingAgent(Agent):
    """Registers and obeys as any agent does, but listens at its port, and tells the driver what it sees each time."""

    _links: tuple[TriedLink, ...] = ()

    def _register(self) -> None:
        self._port.let_connect()
        super()._register()

    def _beat(self) -> Orders | None:
        orders = super()._beat()
        if orders is not None and orders.order is Order.WAIT:
            self._look()
        return orders

    def _look(self) -> None:
        """Tells what it sees, and tries the addresses of the answer, each once and all at the same time."""
        said = NodeLook(agent=self._id, facts=facts_of_host(self._settings.looks_for or ()), links=self._links)
        answer = self._call(Action.LOOK, said, Peers)
        tried = {link.address for link in self._links}
        left = [address for address in (answer.addresses if answer is not None else ()) if address not in tried]
        if left:
            with ThreadPoolExecutor(len(left)) as threads:
                self._links += tuple(threads.map(link_to, left))


def facts_of_host(modules: Iterable[str]) -> NodeFacts:
    """Returns the facts about this host that its agent can see; `modules` are looked for, not imported."""
    path = python_path().split(os.pathsep)
    return NodeFacts(
        python=sys.executable,
        disk=least_disk(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")),
        memory_free_mib=free_memory_mib(_MEMINFO),
        wall_s=time.time(),
        missing=tuple(module for module in modules if find_module(module, path) is None),
    )


def least_disk(folders: Sequence[str]) -> FreeDisk | None:
    """Returns the folder whose disk has the least room, None if there is none that can be asked."""
    disks = []
    for folder in filter(None, folders):
        with suppress(OSError):
            disks.append(FreeDisk(folder=folder, free_mib=shutil.disk_usage(folder).free >> 20))
    return min(disks, key=lambda disk: disk.free_mib, default=None)


def free_memory_mib(meminfo: Path) -> int | None:
    """Returns the host's memory that new processes may have, in MiB; None if unknown."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def link_to(address: str) -> TriedLink:
    """Tries to connect to an address, "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except (OSError, ValueError) as error:
        return TriedLink(address=address, failure=getattr(error, "strerror", None) or str(error))
    return TriedLink(address=address)
