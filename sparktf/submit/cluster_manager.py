"""What takes a submission's application and answers for it: by the kind of master, a manager or none.

A further kind is a class with the methods of `YarnManager`, and a line in `_MANAGERS`.
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
    """YARN, by its ResourceManagers."""

    def __init__(self) -> None:
        """Reads where they are.

        Raises:
            PreflightError: nothing says that.
            ConfigError: yarn-site.xml cannot be read.
        """
        self._managers = read_resource_managers(hadoop_conf_dir())
        self._api = ResourceManagerApi(self._managers)

    @property
    def step_mib(self) -> int:
        """Containers are multiples of it."""
        return self._managers.step_mib

    def wait(self, waiting: Callable[[float], None], within_s: float = KNOBS.resource_manager_wait_s) -> None:
        """Returns when a ResourceManager takes connections.

        Args:
            waiting: Is told the seconds left.

        Raises:
            ReservationError: none does, in time.
        """
        wait_for_resource_manager(self._managers, waiting, within_s)

    def check(self, config: JobConfig) -> None:
        """Refuses what YARN would refuse, or never give. Raises what `check_submission` does."""
        check_submission(config, self._managers, self._api.queues())

    def hosts(self) -> Sequence[YarnHost] | None:
        """Returns the hosts that are at work; None where YARN does not say."""
        return self._api.nodes()

    def words_on(self, application: str) -> str | None:
        """Returns what YARN says of an application; None where it does not answer."""
        return self._api.diagnostics(application)

    def kill(self, application: str, programs: Programs, environment: Mapping[str, str]) -> bool:
        """Ends an application; returns whether it worked."""
        return kill_application(programs.spark_class, application, environment)


_MANAGERS: Mapping[type[Master], type[YarnManager]] = {Yarn: YarnManager}


def manager_of(master: Master) -> type[YarnManager] | None:
    """Returns what manages the applications on a master; None where nobody can be asked."""
    return _MANAGERS.get(type(master))
