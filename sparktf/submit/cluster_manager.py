"""The manager of a submission's application, chosen by the kind of master; some masters have none.

To add one, write a `ClusterManager` and add it to `_MANAGERS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sparktf.config.job import JobConfig
from sparktf.driver.spark.masters import Kubernetes, Master, Yarn, master_of
from sparktf.knobs import KNOBS
from sparktf.submit.environment import Programs, hadoop_conf_dir
from sparktf.submit.pods import check_output_is_shared
from sparktf.submit.process import ApplicationReport, kill_application, kill_submission
from sparktf.submit.resource_managers import read_resource_managers
from sparktf.submit.yarn import ResourceManagerApi, YarnHost, check_submission, wait_for_any, wait_for_resource_manager


class ClusterManager(Protocol):
    """Who runs the containers of an application."""

    @property
    def name(self) -> str:
        """Its name: "YARN"."""

    @property
    def place(self) -> str:
        """Where in it applications go: "queue default"."""

    @property
    def entry(self) -> str:
        """The name of its server: "the ResourceManager"."""

    @property
    def step_mib(self) -> int:
        """Container sizes are multiples of it."""

    @property
    def refusal(self) -> str:
        """Why it did not tell what it was asked last, where a login failed."""

    @property
    def tells_room(self) -> bool:
        """Whether it tells which hosts it has, and what is free there."""

    def wait(self, waiting: Callable[[float], None], within_s: float = KNOBS.resource_manager_wait_s) -> None:
        """Waits until it accepts connections, calling `waiting` with the seconds left.

        Raises:
            ReservationError: it does not in time.
        """

    def check(self) -> None:
        """Refuses a submission that it would refuse or never place. Raises `ConfigError`, `PreflightError`."""

    def hosts(self) -> Sequence[YarnHost] | None:
        """Returns the active hosts; None if it does not tell."""

    def words_on(self, application: str) -> str | None:
        """Returns its diagnostics of an application; None if it does not answer."""

    def kill(self, report: ApplicationReport, programs: Programs, environment: Mapping[str, str]) -> bool:
        """Kills an application; returns whether that worked."""

    def kill_by_hand(self, report: ApplicationReport) -> str:
        """Returns the command by which a person kills it."""

    def logs(self, report: ApplicationReport) -> str:
        """Returns the command that shows its logs."""


class YarnManager:
    """YARN, through its ResourceManagers."""

    name = "YARN"
    entry = "the ResourceManager"
    tells_room = True

    def __init__(self, config: JobConfig) -> None:
        """Reads their addresses.

        Raises:
            PreflightError: they are configured nowhere.
            ConfigError: yarn-site.xml cannot be read.
        """
        self._config = config
        self._managers = read_resource_managers(hadoop_conf_dir())
        self._api = ResourceManagerApi(self._managers)
        self.place = f"queue {config.submit.queue}"

    @property
    def step_mib(self) -> int:
        """Container sizes are multiples of it."""
        return self._managers.step_mib

    def wait(self, waiting: Callable[[float], None], within_s: float = KNOBS.resource_manager_wait_s) -> None:
        """See `ClusterManager`."""
        wait_for_resource_manager(self._managers, waiting, within_s)

    def check(self) -> None:
        """See `ClusterManager`. Raises as `check_submission`."""
        check_submission(self._config, self._managers, self._api.queues())

    @property
    def refusal(self) -> str:
        """Why YARN did not tell what it was asked last, where a login by Kerberos failed."""
        return self._api.refusal

    def hosts(self) -> Sequence[YarnHost] | None:
        """Returns the active hosts; None if YARN does not tell."""
        return self._api.nodes()

    def words_on(self, application: str) -> str | None:
        """Returns YARN's diagnostics of an application; None if it does not answer."""
        return self._api.diagnostics(application)

    def kill(self, report: ApplicationReport, programs: Programs, environment: Mapping[str, str]) -> bool:
        """See `ClusterManager`."""
        return kill_application(programs.spark_class, report.application, environment)

    def kill_by_hand(self, report: ApplicationReport) -> str:
        """See `ClusterManager`."""
        return f"yarn application -kill {report.application}"

    def logs(self, report: ApplicationReport) -> str:
        """See `ClusterManager`."""
        return f"yarn logs -applicationId {report.application}"


class KubernetesManager:
    """Kubernetes, through its API server, to which spark-submit alone has credentials."""

    name = "Kubernetes"
    entry = "Kubernetes' API server"
    tells_room = False
    step_mib = 1
    refusal = ""

    def __init__(self, config: JobConfig) -> None:
        """Asks for nothing yet."""
        self._config, self._master = config, config.submit.master
        self.place = f"namespace {config.submit.conf.get(_NAMESPACE, config.submit.kubernetes.namespace)}"

    def wait(self, waiting: Callable[[float], None], within_s: float = KNOBS.resource_manager_wait_s) -> None:
        """See `ClusterManager`."""
        server = master_of(self._master).entry()
        if server is not None and not any(os.environ.get(name) for name in _PROXIES):
            wait_for_any([server], f"{self.entry} cannot be reached at {{}}: is that its address?", waiting, within_s)

    def check(self) -> None:
        """See `ClusterManager`. Raises as `check_output_is_shared`; quotas and limits show when pods are made."""
        check_output_is_shared(self._config)

    def hosts(self) -> Sequence[YarnHost] | None:
        """Returns None."""
        return None

    def words_on(self, application: str) -> str | None:
        """Returns None: what spark-submit tells of the driver's pod is all that is known."""
        return None

    def kill(self, report: ApplicationReport, programs: Programs, environment: Mapping[str, str]) -> bool:
        """See `ClusterManager`."""
        return kill_submission(programs.spark_submit, self._master, report.submission, environment)

    def kill_by_hand(self, report: ApplicationReport) -> str:
        """See `ClusterManager`."""
        return f"kubectl delete pod {_pod(report)}"

    def logs(self, report: ApplicationReport) -> str:
        """See `ClusterManager`."""
        return f"kubectl logs {_pod(report)}"


_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_NAMESPACE = "spark.kubernetes.namespace"

_MANAGERS: Mapping[type[Master], Callable[[JobConfig], ClusterManager]] = {
    Yarn: YarnManager,
    Kubernetes: KubernetesManager,
}


def manager_of(master: Master) -> Callable[[JobConfig], ClusterManager] | None:
    """Returns the manager of applications on a master, given a configuration; None if there is none to ask."""
    return _MANAGERS.get(type(master))


def _pod(report: ApplicationReport) -> str:
    """Returns the driver's pod as kubectl takes it."""
    namespace, _, pod = report.submission.rpartition(":")
    return f"--namespace {namespace} {pod}"
