"""Spark's masters, one class of each kind: the differences that matter to a run, and to its submission.

All other code asks a `Master`, and never looks at its address. Pure: a submission, which has no Spark, asks as well.
`sparktf.submit.cluster_manager` describes how a submission follows and ends an application.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from sparktf.config.job import JobConfig
from sparktf.config.nodes import NodeMemory
from sparktf.driver.spark.encryption import check_encryption
from sparktf.driver.spark.gpus import SCRIPT, VENDOR, check_gpus
from sparktf.driver.spark.kubernetes_settings import OVERHEAD_SHARE, kubernetes_settings
from sparktf.driver.spark.yarn_memory import check_overhead
from sparktf.driver.spark.yarn_settings import executors_at_first, protection, yarn_settings

HERE = "local[*]"
"""Spark's default master: all cores of this machine."""

_PORTS = {"https": 443, "http": 80}
_LOCAL = re.compile(r"^local(?:\[(\d+|\*)(?:\s*,\s*\d+)?\])?$")
_LOCAL_CLUSTER = re.compile(r"^local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]$")


@dataclass(frozen=True, slots=True)
class Master:
    """A master; by default one that starts the configured executors, on hosts of its own, and no more."""

    url: str

    runs_in_driver: ClassVar[bool] = False
    """Whether tasks run in the driver's own JVM, which has no executors."""

    one_machine: ClassVar[bool] = False
    """Whether all executors run on the driver's machine."""

    grants_executors: ClassVar[bool] = False
    """Whether executors can be requested, and given back, while the application runs."""

    places_executors: ClassVar[bool] = False
    """Whether they can be requested on given hosts, by the names that storage knows."""

    has_resource_manager: ClassVar[bool] = False
    """Whether a submission has to know YARN's ResourceManager."""

    address_in: ClassVar[str] = ""
    """Variable of an executor with the address by which others reach it; "" where that is its host's own name."""

    container_in: ClassVar[str] = ""
    """Variable of an executor with the word by which `has_executor` knows it; "" where there is none."""

    gpus_need: ClassVar[tuple[str, ...]] = ()
    """Settings of Spark without which executors with GPUs would not come."""

    unpacks_archives: ClassVar[bool] = False
    """Whether it brings a packed environment to its executors, and unpacks it in their folders."""

    keeps_drivers: ClassVar[bool] = False
    """Whether a driver in cluster mode outlives the process that submitted it."""

    def slots(self, executor_cores: int) -> Slots:
        """Returns an application's slots, if started here, with `executor_cores` each unless the master fixes that."""
        return Slots(self, None, executor_cores)

    def place(self, conf: Mapping[str, str]) -> str:
        """Returns the gang's place, for people, given the application's Spark settings."""
        return self.url

    def entry(self) -> str | None:
        """Returns "host:port" of what answers for the master, as its own address says; None if it does not."""
        return None

    def check_memory(self, conf: Mapping[str, str], node: NodeMemory) -> None:
        """Refuses executors that have no room for a trainer, if the master enforces their memory limits.

        Args:
            conf: Spark's settings, as the application has them.
            node: Of the gang's largest process.

        Raises:
            PreflightError: with the setting that would suffice.
        """

    def has_executor(self, container: str, executor: str, log: str) -> bool:
        """Whether an executor is the one in a container.

        Args:
            container: What `container_in` holds there.
            executor: Spark's id of it.
            log: Address of its log.
        """
        return False

    # ---- a submission ----

    def executors(self, config: JobConfig) -> int:
        """Returns how many executors an application that trains starts with."""
        return config.cluster.nodes

    def settings(self, config: JobConfig, *, trains: bool) -> dict[str, str]:
        """Returns the Spark settings that a submission to it needs besides those of all masters."""
        return {}

    def python(self, config: JobConfig, here: str) -> str:
        """Returns the executors' Python where no archive brings one; `here` is the one that this machine names."""
        return here

    def detached(self) -> dict[str, str]:
        """Returns the Spark settings by which spark-submit does not wait for the end of a driver in cluster mode."""
        return {}

    def check_security(self, config: JobConfig) -> None:
        """Refuses settings that preflight would refuse in the driver.

        Raises:
            PreflightError: the run would be less protected than Spark's traffic.
        """

    def check_gpus(self, config: JobConfig) -> None:
        """Refuses GPUs in a submission's settings that the nodes would not get. Raises `PreflightError`."""
        if not self.runs_in_driver:
            check_gpus(config.submit.conf, config.cluster, needs=self.gpus_need)


@dataclass(frozen=True, slots=True)
class Slots:
    """The places for tasks that an application has or will have."""

    master: Master
    executors: int | None  # 1 where the driver is the only executor; None if unknown or open
    cores: int  # Of each
    dynamic: bool = False  # Whether Spark asks for executors, and gives them back, by itself

    @property
    def total(self) -> int | None:
        return None if self.executors is None else self.executors * self.cores


@dataclass(frozen=True, slots=True)
class Local(Master):
    """`local[n]`: threads of the driver's JVM."""

    runs_in_driver: ClassVar[bool] = True
    one_machine: ClassVar[bool] = True

    def slots(self, executor_cores: int) -> Slots:
        """Returns as many as its address names."""
        found = _LOCAL.match(self.url)
        named = (found and found.group(1)) or "1"
        return Slots(self, 1, len(os.sched_getaffinity(0)) if named == "*" else int(named))


@dataclass(frozen=True, slots=True)
class LocalCluster(Master):
    """`local-cluster[executors,cores,MiB]`: JVMs of this machine."""

    one_machine: ClassVar[bool] = True

    def slots(self, executor_cores: int) -> Slots:
        """Returns as many as its address names."""
        found = _LOCAL_CLUSTER.match(self.url)
        if found is None:
            return Slots(self, None, executor_cores)
        return Slots(self, int(found.group(1)), int(found.group(2)))


@dataclass(frozen=True, slots=True)
class Standalone(Master):
    """`spark://host:port`, and masters of unknown kind."""

    def settings(self, config: JobConfig, *, trains: bool) -> dict[str, str]:
        """Returns all cores of the executors: it counts no executors, and gives an application what cores there are."""
        executors = config.cluster.nodes if trains else config.cluster.workers
        cores = config.submit.conf.get("spark.executor.cores", str(config.submit.executor_cores))
        return {"spark.cores.max": str(executors * int(cores))} if cores.isdecimal() else {}


@dataclass(frozen=True, slots=True)
class Yarn(Master):
    """`yarn`: containers, requested from a ResourceManager."""

    grants_executors: ClassVar[bool] = True
    places_executors: ClassVar[bool] = True
    has_resource_manager: ClassVar[bool] = True
    unpacks_archives: ClassVar[bool] = True
    keeps_drivers: ClassVar[bool] = True
    container_in: ClassVar[str] = "CONTAINER_ID"
    gpus_need: ClassVar[tuple[str, ...]] = (SCRIPT,)

    def place(self, conf: Mapping[str, str]) -> str:
        """Returns the queue, too."""
        return f"{self.url}, queue {conf.get('spark.yarn.queue', 'default')}"

    def check_memory(self, conf: Mapping[str, str], node: NodeMemory) -> None:
        """Checks the overhead: YARN ends a container that takes more than it has asked for."""
        check_overhead(conf, node)

    def has_executor(self, container: str, executor: str, log: str) -> bool:
        """Whether it is in the container, whose id is in the address of its log."""
        return bool(container) and container in log

    def executors(self, config: JobConfig) -> int:
        """Returns one, the fewest that Spark starts with, if the driver asks for the others later."""
        return executors_at_first(config)

    def settings(self, config: JobConfig, *, trains: bool) -> dict[str, str]:
        """Returns memory, queue, attempts and losses, and the protection of network and disks."""
        return yarn_settings(config, trains=trains)

    def detached(self) -> dict[str, str]:
        """Returns YARN's own."""
        return {"spark.yarn.submit.waitAppCompletion": "false"}

    def check_security(self, config: JobConfig) -> None:
        """Compares `security.tls` with a submission's settings."""
        check_encryption({**protection(config), **config.submit.conf}, config.security.tls)


@dataclass(frozen=True, slots=True)
class Kubernetes(Master):
    """`k8s://`: pods, whose names are no addresses, and whose image has all programs."""

    grants_executors: ClassVar[bool] = True
    unpacks_archives: ClassVar[bool] = True
    keeps_drivers: ClassVar[bool] = True
    address_in: ClassVar[str] = "SPARK_EXECUTOR_POD_IP"
    container_in: ClassVar[str] = "SPARK_EXECUTOR_ID"
    gpus_need: ClassVar[tuple[str, ...]] = (VENDOR, SCRIPT)

    def has_executor(self, container: str, executor: str, log: str) -> bool:
        """Whether it is the executor of that id."""
        return bool(container) and container == executor

    def place(self, conf: Mapping[str, str]) -> str:
        """Returns the namespace, too."""
        return f"{self.url}, namespace {conf.get('spark.kubernetes.namespace', 'default')}"

    def entry(self) -> str | None:
        """Returns the address of the API server."""
        named = self.url.removeprefix("k8s://")
        address = urllib.parse.urlsplit(named if "://" in named else f"https://{named}")
        with suppress(ValueError):  # no number
            port = address.port or _PORTS.get(address.scheme)
            return f"{address.hostname}:{port}" if address.hostname and port else None
        return None

    def check_memory(self, conf: Mapping[str, str], node: NodeMemory) -> None:
        """Checks the overhead: a pod's limit is the executor's heap and overhead together."""
        check_overhead(conf, node, OVERHEAD_SHARE)

    def executors(self, config: JobConfig) -> int:
        """Returns one if the driver asks for the others later, once the data is there."""
        return 1 if config.data.ready is not None else config.cluster.nodes

    def settings(self, config: JobConfig, *, trains: bool) -> dict[str, str]:
        """Returns memory, image, namespace, volumes and losses, and the protection of network and disks."""
        return kubernetes_settings(config, trains=trains)

    def python(self, config: JobConfig, here: str) -> str:
        """Returns the image's."""
        return config.submit.kubernetes.python

    def detached(self) -> dict[str, str]:
        """Returns Kubernetes' own."""
        return {"spark.kubernetes.submission.waitAppCompletion": "false"}

    def check_security(self, config: JobConfig) -> None:
        """Compares `security.tls` with a submission's settings."""
        check_encryption({**protection(config), **config.submit.conf}, config.security.tls)


def master_of(url: str) -> Master:
    """Returns the master for Spark's master URL."""
    if _LOCAL.match(url):
        return Local(url)
    if _LOCAL_CLUSTER.match(url):
        return LocalCluster(url)
    if url.startswith("k8s://"):
        return Kubernetes(url)
    return Yarn(url) if url.startswith("yarn") else Standalone(url)


def master_to_submit_to(config: JobConfig) -> Master:
    """Returns the master of `submit.master`."""
    return master_of(config.submit.master)
