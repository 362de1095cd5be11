"""ViewFS: the mount table of a Hadoop configuration says on which file system a path of `viewfs://` really is."""

from __future__ import annotations

from collections.abc import Mapping

from sparktf.errors import ConfigError
from sparktf.hadoop import VIEWFS

_KEYS = "fs.viewfs.mounttable."
_LINK, _FALLBACK, _WHOLE = "link.", "linkFallback", "linkMergeSlash"
# These say where a path is by a pattern, or in several places at once.
_OTHER_LINKS = ("linkRegex.", "linkNfly.", "linkNfly", "linkMerge.")
_MOUNTING = (".ViewFileSystemOverloadScheme", ".ViewDistributedFileSystem")


def mounted(path: str, authority: str, below: str, properties: Mapping[str, str]) -> str:
    """Returns the URL to which a path of ViewFS leads.

    Args:
        path: As it was written, for messages.
        authority: The name of the mount table; empty for the default one.
        below: The absolute path, without "//" and "/../"; empty for the root.

    Raises:
        ConfigError: no mount point has the path, or it holds mount points, or is of a kind that is not supported.
    """
    table = f"{_KEYS}{authority or 'default'}."
    links = {key.removeprefix(table): value for key, value in properties.items() if key.startswith(table)}
    points = {name.removeprefix(_LINK).rstrip("/"): url for name, url in links.items() if name.startswith(_LINK)}
    inside = sorted(point for point in points if f"{point}/".startswith(f"{below}/") and point != below)
    if inside:
        raise ConfigError(
            f"{path}: below it are mount points of {VIEWFS}://{authority}, on file systems of their own: write a path "
            f"below one of them, as {inside[0]}"
        )
    for point in sorted(points, key=len, reverse=True):
        if f"{below}/".startswith(f"{point}/"):
            return points[point].rstrip("/") + below.removeprefix(point)
    for name in (_WHOLE, _FALLBACK):
        if name in links:
            return links[name].rstrip("/") + below
    raise ConfigError(f"{path}: {_reason(authority, table, links, properties, sorted(points))}")


def home_of(authority: str, user: str, properties: Mapping[str, str]) -> str:
    """Returns the home of a user below ViewFS."""
    above = properties.get(f"{_KEYS}{authority or 'default'}.homedir", "/user")
    return f"{above.rstrip('/')}/{user}"


def check_not_mounted(path: str, authority: str, below: str, properties: Mapping[str, str]) -> None:
    """Refuses a path of `hdfs://` for which Hadoop's clients look into a mount table (`fs.hdfs.impl`), as Spark does.

    Raises:
        ConfigError: they do, and it leads elsewhere.
    """
    table, given = authority.partition(":")[0], properties.get("fs.hdfs.impl", "")
    if not given.endswith(_MOUNTING) or not any(key.startswith(f"{_KEYS}{table}.") for key in properties):
        return
    found = mounted(path, table, below, properties)
    if found != f"hdfs://{authority}{below}":
        raise ConfigError(f"{path}: by fs.hdfs.impl and {_KEYS}{table} it is at {found}: write that")


def _reason(
    authority: str, table: str, links: Mapping[str, str], properties: Mapping[str, str], points: list[str]
) -> str:
    name, instead = f"{VIEWFS}://{authority}", "write where it really is, as hdfs://<name service>/..."
    if f"{_KEYS}path" in properties:
        return f"the mount table of {name} is in a file of its own ({_KEYS}path), which is not read: {instead}"
    if others := sorted(key for key in links if key.startswith(_OTHER_LINKS)):
        return f"no plain mount point of {name} has it, and {table}{others[0]} is not supported: {instead}"
    if not points:
        return f"the Hadoop configuration has no mount table of {name} ({table}{_LINK}...): {instead}"
    return f"no mount point of {name} has it; there are {', '.join(points)}"
