"""Folders in which predictions may not go: folders that are read, and folders of other results."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import urlsplit

from sparktf.config.job import JobConfig
from sparktf.config.predict_section import MODEL_WORDS, RUN
from sparktf.errors import ConfigError
from sparktf.hadoop import HDFS_SCHEMES
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import local_path

_BRACES = re.compile(r"\{[^/]*\}")


class Spot(NamedTuple):
    """The location that a path leads to, links and `..` resolved."""

    system: tuple[str, str]  # Equal for all paths of one file system
    parts: tuple[str, ...]  # Names of the folders from the root on; patterns for sources

    def holds(self, other: Spot) -> bool:
        """Whether the other one is here, or below."""
        return len(self.parts) <= len(other.parts) and self.meets(other)

    def meets(self, other: Spot) -> bool:
        """Whether one of the two is at or below the other."""
        pairs = zip(self.parts, other.parts, strict=False)
        return self.system == other.system and all(mine == theirs or _matches(mine, theirs) for mine, theirs in pairs)


def _matches(mine: str, theirs: str) -> bool:
    return fnmatchcase(mine, _BRACES.sub("*", theirs)) or fnmatchcase(theirs, _BRACES.sub("*", mine))


def spot_of(path: str, file_systems: FileSystems) -> Spot:
    """Returns the location that a path leads to. Raises `ConfigError` if it is empty, or names no cluster."""
    path = file_systems.normalise(path)
    scheme, separator, _ = path.partition("://")
    if not separator or scheme == "file":
        return Spot(("file", ""), _parts(os.path.realpath(local_path(path))))
    authority, below = urlsplit(path).netloc, "/" + path.partition("://")[2].partition("/")[2]
    if scheme in HDFS_SCHEMES:  # one cluster answers at several ports and hosts, by several protocols
        scheme, authority = HDFS_SCHEMES[0], file_systems.hadoop.cluster_of(authority)
    return Spot((scheme, authority), _parts(posixpath.normpath(below)))


def _parts(absolute: str) -> tuple[str, ...]:
    return tuple(part for part in absolute.split("/") if part)


def check_predictions(config: JobConfig, file_systems: FileSystems) -> None:
    """Checks that predictions do not go into a folder of the configuration's sources, runs or models.

    Raises:
        ConfigError: they do.
    """
    if config.predict is None or config.predict.output.path is None:
        return
    output = config.predict.output.path
    for key, path in _named(config):
        check_apart(output, f"{key}: {path}", spot_of(path, file_systems), file_systems)


def check_apart(
    output: str, what: str, other: Spot, file_systems: FileSystems, key: str = "predict.output.path"
) -> None:
    """Refuses a folder of predictions at, above or below another place.

    Args:
        output: The folder.
        what: The other place, in words.
        key: The configuration key of the folder.

    Raises:
        ConfigError: it is.
    """
    mine = spot_of(output, file_systems)
    if not mine.meets(other):
        return
    where = "is" if mine.holds(other) and other.holds(mine) else "is above" if mine.holds(other) else "is below"
    raise ConfigError(
        f"{key}: {output} {where} {what}: predictions would replace the data there or be read as its rows; write "
        "them to a separate folder"
    )


def _named(config: JobConfig) -> Iterator[tuple[str, str]]:
    """Yields the folders in a configuration besides that of the predictions, with their keys."""
    predict, validation = config.predict, config.data.validation
    if predict is not None and predict.source is not None and predict.source.path is not None:
        yield "predict.source.path", predict.source.path
    if predict is not None and not (predict.model in MODEL_WORDS or predict.model.startswith(RUN)):
        yield "predict.model", predict.model
    if config.data.path is not None:
        yield "data.path", config.data.path
    if validation is not None and validation.path is not None:
        yield "data.validation.path", validation.path
    if config.train.init_path is not None:
        yield "train.init_from", config.train.init_path
    yield "output.path", config.output.path
