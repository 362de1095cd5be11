"""YARN's client configuration: what yarn-site.xml says of the ResourceManager."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparktf.errors import PreflightError

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_FILES = ("core-site.xml", "yarn-site.xml")


@dataclass(frozen=True, slots=True)
class ResourceManagers:
    """Where the ResourceManagers are; more than one with high availability.

    Attributes:
        rpc: "host:port" of each, which `spark-submit` talks to.
        web: URL of each one's REST API.
        maximum_mib: Largest container by yarn-site.xml, None if it does not say.
    """

    rpc: tuple[str, ...]
    web: tuple[str, ...]
    maximum_mib: int | None


def read_resource_managers(folder: Path | None) -> ResourceManagers:
    """Returns what the files of HADOOP_CONF_DIR say.

    Raises:
        PreflightError: there is no such folder, or a file in it is no Hadoop configuration.
    """
    if folder is None:
        raise PreflightError("submit.master: yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: the folder of yarn-site.xml")
    if not folder.is_dir():
        raise PreflightError(f"HADOOP_CONF_DIR: there is no folder {folder}")
    properties: dict[str, str] = {}
    for path in (folder / name for name in _FILES):
        if path.is_file():
            properties.update(_properties(path))
    return resource_managers(properties)


def resource_managers(properties: Mapping[str, str]) -> ResourceManagers:
    """Returns where Hadoop's properties say that the ResourceManagers are."""
    key = "yarn.resourcemanager"
    ids = properties.get(f"{key}.ha.rm-ids", "") if properties.get(f"{key}.ha.enabled") == "true" else ""
    suffixes = [f".{name.strip()}" for name in ids.split(",") if name.strip()] or [""]
    secure = properties.get("yarn.http.policy") == "HTTPS_ONLY"
    web_key, web_port, scheme = ("webapp.https.address", 8090, "https") if secure else ("webapp.address", 8088, "http")

    def value(name: str, suffix: str) -> str | None:
        found = properties.get(f"{key}.{name}{suffix}")
        return _filled(found, properties) if found else None

    hosts = {suffix: value("hostname", suffix) or value("hostname", "") or "0.0.0.0" for suffix in suffixes}
    maximum = properties.get("yarn.scheduler.maximum-allocation-mb", "")
    return ResourceManagers(
        rpc=tuple(value("address", s) or f"{hosts[s]}:8032" for s in suffixes),
        web=tuple(f"{scheme}://{value(web_key, s) or f'{hosts[s]}:{web_port}'}" for s in suffixes),
        maximum_mib=int(maximum) if maximum.isdecimal() else None,
    )


def _properties(path: Path) -> dict[str, str]:
    try:
        root = ET.parse(path).getroot()
    except (ET.ParseError, OSError) as e:
        raise PreflightError(f"{path}: cannot be read: {e}") from e
    return {
        (found.findtext("name") or "").strip(): (found.findtext("value") or "").strip()
        for found in root.iter("property")
    }


def _filled(text: str, properties: Mapping[str, str]) -> str:
    """Returns a value with `${other.property}` replaced, as Hadoop does."""
    for _ in range(20):
        filled = _VARIABLE.sub(lambda found: properties.get(found.group(1), found.group()), text)
        if filled == text:
            break
        text = filled
    return text
