"""A submission's requests to Kubernetes: the Spark settings of its pods."""

from __future__ import annotations

from collections.abc import Iterator

from sparktf.config.job import JobConfig
from sparktf.config.kubernetes_section import VolumeConfig
from sparktf.driver.spark.allowed_losses import allowed_executors
from sparktf.driver.spark.yarn_memory import driver_container
from sparktf.driver.spark.yarn_settings import executor_of, protection

OVERHEAD_SHARE = "spark.kubernetes.memoryOverheadFactor"
"""In cluster mode Spark sets it for a driver in Python."""


def kubernetes_settings(config: JobConfig, *, trains: bool) -> dict[str, str]:
    """Returns the Spark settings that only Kubernetes needs; if the job `trains`, executors of its gang may be lost."""
    submit, asked = config.submit, config.submit.kubernetes
    settings = {"spark.executor.memoryOverhead": f"{executor_of(config).overhead_mib}m"}
    roles = ["executor"]
    if submit.deploy_mode == "cluster":
        settings["spark.driver.memoryOverhead"] = f"{driver_container(submit.driver_memory_mib).overhead_mib}m"
        roles.append("driver")
    named = {
        "container.image": asked.image,
        "namespace": asked.namespace,
        "authenticate.driver.serviceAccountName": asked.service_account,
        "file.upload.path": asked.upload,
    }
    settings |= {f"spark.kubernetes.{key}": value for key, value in named.items() if value is not None}
    for role in roles:
        for name, volume in asked.volumes.items():
            settings |= {f"spark.kubernetes.{role}.volumes.{key}": value for key, value in _volume(name, volume)}
    return {**settings, **(allowed_executors(config) if trains else {}), **protection(config)}


def _volume(name: str, volume: VolumeConfig) -> Iterator[tuple[str, str]]:
    """Yields the settings of a volume, below those of all volumes."""
    if volume.claim is not None:
        kind, options = "persistentVolumeClaim", {"claimName": volume.claim}
    elif volume.host_path is not None:
        kind, options = "hostPath", {"path": volume.host_path}
    else:
        server, _, path = (volume.nfs or "").partition(":")
        kind, options = "nfs", {"server": server, "path": path}
    yield f"{kind}.{name}.mount.path", volume.path
    if volume.read_only:
        yield f"{kind}.{name}.mount.readOnly", "true"
    yield from ((f"{kind}.{name}.options.{option}", value) for option, value in options.items())
