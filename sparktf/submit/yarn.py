"""YARN as a submission sees it: whether it is up, what it would refuse, and the state of an application."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.driver.spark.yarn_memory import check_fits
from sparktf.driver.spark.yarn_settings import containers
from sparktf.errors import ConfigError, PreflightError, ReservationError
from sparktf.knobs import KNOBS
from sparktf.submit.cluster_web import ClusterWeb
from sparktf.submit.resource_managers import ResourceManagers
from sparktf.told import told


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of YARN's that accepts applications."""

    path: str  # "root.default"
    maximum_mib: int | None  # Its largest container, None if the scheduler does not tell
    state: str = "RUNNING"  # "STOPPED" and "DRAINING" ones accept nothing

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Queues:
    """The existing queues; not `complete` if YARN creates others on demand."""

    queues: tuple[Queue, ...]
    complete: bool

    def find(self, name: str) -> Queue | None:
        """Returns the queue of a name or path."""
        return next((queue for queue in self.queues if name in (queue.path, queue.name)), None)


def wait_for_resource_manager(
    managers: ResourceManagers, waiting: Callable[[float], None], within_s: float = KNOBS.resource_manager_wait_s
) -> None:
    """Waits until a ResourceManager accepts connections.

    Args:
        waiting: Called with the seconds left.

    Raises:
        ReservationError: none does, in time.
    """
    complaint = "YARN's ResourceManager cannot be reached at {}: is it up, and is that the address in yarn-site.xml?"
    wait_for_any(managers.rpc, complaint, waiting, within_s)


def wait_for_any(addresses: Sequence[str], complaint: str, waiting: Callable[[float], None], within_s: float) -> None:
    """Waits until one of several addresses accepts connections.

    Args:
        addresses: "host:port" of each.
        complaint: Of the error, with the place for the addresses and their reasons.
        waiting: Called with the seconds left.

    Raises:
        ReservationError: none does, in time.
    """
    deadline_s = time.monotonic() + within_s
    while True:
        reasons = list(map(_refusal, addresses))
        if "" in reasons:
            return
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            named = ", ".join(f"{at} ({reason})" for at, reason in zip(addresses, reasons, strict=True))
            raise ReservationError(complaint.format(named))
        waiting(left_s)
        time.sleep(KNOBS.resource_manager_retry_s)


def _refusal(address: str) -> str:
    """Returns why an address does not answer; empty if it does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=KNOBS.resource_manager_call_s).close()
    except (OSError, ValueError) as e:
        return getattr(e, "strerror", None) or str(e)
    return ""


@dataclass(frozen=True, slots=True)
class YarnHost:
    """A host of YARN's that takes containers, and its free resources."""

    host: str
    memory_mib: int
    free_mib: int
    vcores: int
    free_vcores: int


class ResourceManagerApi:
    """The REST API. It may be closed by a login or a firewall: then its answers are None."""

    def __init__(self, managers: ResourceManagers, web: ClusterWeb | None = None) -> None:
        """Asks for nothing yet.

        Args:
            web: Has logins of other questions; its own by default.
        """
        self._managers = managers
        self._web = web or ClusterWeb(managers.trust)
        self.refusal = ""
        """Why the last question was not answered, where a login by Kerberos failed."""

    def queues(self) -> Queues | None:
        """Returns the queues."""
        answer = self._get("scheduler")
        found = answer.get("scheduler", {}).get("schedulerInfo") if answer else None
        return parse_queues(found) if found else None

    def nodes(self) -> tuple[YarnHost, ...] | None:
        """Returns the active hosts by name."""
        answer = self._get("nodes")
        if answer is None:
            return None
        found = (answer.get("nodes") or {}).get("node") or []
        return tuple(sorted((_node(n) for n in found if n.get("state") == "RUNNING"), key=lambda node: node.host))

    def diagnostics(self, application: str) -> str | None:
        """Returns YARN's message on an application: why it waits, or why it ended."""
        answer = self._get(f"apps/{application}")
        return str(answer.get("app", {}).get("diagnostics", "")).strip() if answer else None

    def _get(self, path: str) -> dict[str, Any] | None:
        # With high availability, the one that stands by redirects to the active one.
        refusal = ""
        for url in self._managers.web:
            try:
                found = json.loads(self._web.read(f"{url}/ws/v1/cluster/{path}"))
            except PreflightError as error:
                refusal = told(str(error))
            except (OSError, ValueError):
                continue
            else:
                if isinstance(found, dict):
                    self.refusal = ""
                    return found
        self.refusal = refusal
        return None


def parse_queues(scheduler: Mapping[str, Any]) -> Queues:
    """Returns the queues of a `schedulerInfo`, of the capacity or the fair scheduler."""
    if "rootQueue" in scheduler:  # fair: queues are made as applications ask for them
        return Queues(tuple(_leaves(scheduler["rootQueue"])), complete=False)
    made = any(
        queue.get("autoCreationEligibility", "off") != "off" or queue.get("autoCreateChildQueueEnabled")
        for queue in _walk(scheduler)
    )
    return Queues(tuple(_leaves(scheduler)), complete=not made and bool(scheduler.get("queues")))


def queue_of(config: JobConfig) -> str:
    """Returns the queue that a run is submitted to."""
    return config.submit.conf.get("spark.yarn.queue", config.submit.queue)


def check_submission(config: JobConfig, managers: ResourceManagers, queues: Queues | None) -> None:
    """Refuses a submission that YARN would refuse, or never place.

    Raises:
        ConfigError: there is no such queue.
        PreflightError: a container is larger than the largest.
    """
    name = queue_of(config)
    queue = queues.find(name) if queues is not None else None
    # Placement rules may send applications for "default" to another queue.
    if queues is not None and queue is None and queues.complete and name != "default":
        there_are = ", ".join(sorted(queue.name for queue in queues.queues))
        raise ConfigError(f"submit.queue: {name} does not exist in YARN: name one of {there_are}")
    largest, source = managers.maximum_mib, "YARN (yarn-site.xml)"
    if queue is not None and queue.maximum_mib:
        largest, source = queue.maximum_mib, f"YARN's queue {queue.name}"
    if largest is not None:
        for container in containers(config):
            check_fits(container, largest, source)


def _node(node: Mapping[str, Any]) -> YarnHost:
    used, free, used_vcores, free_vcores = (
        int(node.get(key) or 0)
        for key in ("usedMemoryMB", "availMemoryMB", "usedVirtualCores", "availableVirtualCores")
    )
    return YarnHost(str(node.get("nodeHostName", "")), used + free, free, used_vcores + free_vcores, free_vcores)


def _children(queue: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    below = queue.get("queues") or queue.get("childQueues") or {}
    found = below.get("queue", []) if isinstance(below, Mapping) else below
    return [found] if isinstance(found, Mapping) else list(found)


def _walk(queue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield queue
    for child in _children(queue):
        yield from _walk(child)


def _leaves(queue: Mapping[str, Any]) -> Iterator[Queue]:
    for found in _walk(queue):
        if not _children(found):
            largest = (found.get("maximumAllocation") or found.get("maxContainerAllocation") or {}).get("memory")
            path, state = (
                str(found.get("queuePath") or found.get("queueName", "")),
                str(found.get("state") or "RUNNING"),
            )
            yield Queue(path, int(largest) if largest else None, state)
