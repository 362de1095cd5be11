"""The manager of a submission's application, chosen by the kind of master; some masters have none.

To add one, write a class with the methods of `YarnManager` and add it to `_MANAGERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sparktf.config.job import JobConfig
from sparktf.driver.spark.masters import Master, Yarn
from sparktf.knobs import KNOBS
from sparktf.submit.environment import Programs, hadoop_conf_dir
from sparktf.submit.process import kill_application
from sparktf.submit.resource_managers import read_resource_managers
from sparktf.submit.yarn import ResourceManagerApi, YarnHost, check_submission, wait_for_resource_manager


class YarnManager:
    """YARN, through its ResourceManagers."""

    def __init__(self) -> None:
        """Reads their addresses.

        Raises:
            PreflightError: they are configured nowhere.
            ConfigError: yarn-site.xml cannot be read.
        """
        self._managers = read_resource_managers(hadoop_conf_dir())
        self._api = ResourceManagerApi(self._managers)

    @property
    def step_mib(self) -> int:
        """Container sizes are multiples of it."""
        return self._managers.step_mib

    def wait(self, waiting: Callable[[float], None], within_s: float = KNOBS.resource_manager_wait_s) -> None:
        """Waits until a ResourceManager accepts connections, calling `waiting` with the seconds left.

        Raises:
            ReservationError: none does in time.
        """
        wait_for_resource_manager(self._managers, waiting, within_s)

    def check(self, config: JobConfig) -> None:
        """Refuses a submission that YARN would refuse or never place. Raises as `check_submission`."""
        check_submission(config, self._managers, self._api.queues())

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

    def kill(self, application: str, programs: Programs, environment: Mapping[str, str]) -> bool:
        """Kills an application; returns whether that worked."""
        return kill_application(programs.spark_class, application, environment)


_MANAGERS: Mapping[type[Master], type[YarnManager]] = {Yarn: YarnManager}


def manager_of(master: Master) -> type[YarnManager] | None:
    """Returns the manager of applications on a master; None if there is none to ask."""
    return _MANAGERS.get(type(master))
