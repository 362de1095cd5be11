"""The addresses of YARN's ResourceManagers, from the Hadoop configuration."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparktf.errors import PreflightError
from sparktf.hadoop import HadoopConf
from sparktf.trusted import trusted

_STEP_MIB = 1024


@dataclass(frozen=True, slots=True)
class ResourceManagers:
    """The ResourceManagers; more than one with high availability."""

    rpc: tuple[str, ...]  # "host:port" of each, for `spark-submit`
    web: tuple[str, ...]  # URL of each one's REST API
    maximum_mib: int | None  # Largest container by yarn-site.xml; None if it does not tell
    step_mib: int = _STEP_MIB  # Container sizes are multiples of it, by yarn-site.xml or YARN's default
    trust: ssl.SSLContext | None = field(default=None, compare=False)  # For HTTPS


def read_resource_managers(folder: Path | None) -> ResourceManagers:
    """Reads the files of HADOOP_CONF_DIR.

    Raises:
        PreflightError: it is not set.
        ConfigError: there is no such folder, or a file in it cannot be read as what it is.
    """
    if folder is None:
        raise PreflightError("submit.master: yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: the folder of yarn-site.xml")
    return resource_managers(HadoopConf.from_folder(folder).properties)


def resource_managers(properties: Mapping[str, str]) -> ResourceManagers:
    """Returns the ResourceManagers of Hadoop's properties. Raises `ConfigError` if their truststore is not there."""
    key = "yarn.resourcemanager"
    ids = properties.get(f"{key}.ha.rm-ids", "") if properties.get(f"{key}.ha.enabled") == "true" else ""
    suffixes = [f".{name.strip()}" for name in ids.split(",") if name.strip()] or [""]
    secure = properties.get("yarn.http.policy") == "HTTPS_ONLY"
    web_key, web_port, scheme = ("webapp.https.address", 8090, "https") if secure else ("webapp.address", 8088, "http")

    def value(name: str, suffix: str) -> str | None:
        return properties.get(f"{key}.{name}{suffix}") or None

    hosts = {suffix: value("hostname", suffix) or value("hostname", "") or "0.0.0.0" for suffix in suffixes}
    maximum, step = (properties.get(f"yarn.scheduler.{which}-allocation-mb", "") for which in ("maximum", "minimum"))
    return ResourceManagers(
        rpc=tuple(value("address", s) or f"{hosts[s]}:8032" for s in suffixes),
        web=tuple(f"{scheme}://{value(web_key, s) or f'{hosts[s]}:{web_port}'}" for s in suffixes),
        maximum_mib=int(maximum) if maximum.isdecimal() else None,
        step_mib=int(step) if step.isdecimal() and int(step) else _STEP_MIB,
        trust=trusted(properties) if secure else None,
    )
