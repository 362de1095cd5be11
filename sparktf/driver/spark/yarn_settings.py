"""A submission's requests to YARN: executors, containers, and the Spark settings that go with them."""

from __future__ import annotations

from sparktf.config.job import JobConfig
from sparktf.driver.spark.allowed_losses import allowed_executors
from sparktf.driver.spark.encryption import AUTHENTICATE, ENCRYPT
from sparktf.driver.spark.yarn_memory import Container, driver_container, executor_container, settled
from sparktf.knobs import KNOBS


def executors_at_first(config: JobConfig) -> int:
    """Returns how many executors the application starts with: one for each node.

    Only one, the fewest that Spark starts with, if the driver asks for the others later: at the hosts of the data,
    which are not known before, or once the data is there.
    """
    asks_later = config.cluster.placement == "data" or config.data.ready is not None
    return 1 if asks_later else config.cluster.nodes


def containers(config: JobConfig) -> tuple[Container, ...]:
    """Returns the containers requested from YARN, one of each kind."""
    submit = config.submit
    found = [executor_of(config)]
    if submit.deploy_mode == "cluster":
        found.append(driver_container(submit.driver_memory_mib))
    return tuple(settled(container, submit.conf) for container in found)


def yarn_settings(config: JobConfig, *, trains: bool) -> dict[str, str]:
    """Returns the Spark settings that only YARN needs; if the job `trains`, executors of its gang may be lost."""
    submit = config.submit
    overheads = {"spark.executor.memoryOverhead": executor_of(config).overhead_mib}
    # On this machine, a second ApplicationMaster would wait in vain for a driver that has failed.
    attempts = 1
    if submit.deploy_mode == "cluster":
        overheads["spark.driver.memoryOverhead"] = driver_container(submit.driver_memory_mib).overhead_mib
        attempts = submit.max_app_attempts
    return {
        **{key: f"{mib}m" for key, mib in overheads.items()},
        "spark.yarn.queue": submit.queue,
        "spark.yarn.tags": f"sparktf,{config.name}",
        "spark.yarn.maxAppAttempts": str(attempts),
        **(allowed_executors(config) if trains else {}),
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": f"{KNOBS.resource_manager_wait_s * 1000:.0f}",
        **protection(config),
    }


def executor_of(config: JobConfig) -> Container:
    """Returns the container of an executor."""
    submit = config.submit
    return executor_container(submit.executor_memory_mib, config.cluster.node_memory, submit.executor_cores)


def protection(config: JobConfig) -> dict[str, str]:
    """Returns settings that protect Spark's network and disks; YARN distributes the application's secret itself."""
    if config.submit.conf.get(AUTHENTICATE, "").lower() == "false":
        return {}  # Spark encrypts nothing without it, and refuses to be asked
    return {
        AUTHENTICATE: "true",
        ENCRYPT: "true",
        "spark.io.encryption.enabled": "true",
        # The NodeManager's own service would have to know of it, and is there for dynamic allocation.
        "spark.shuffle.service.enabled": "false",
    }
