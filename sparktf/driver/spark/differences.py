"""The differences between the versions of Spark: only this file asks which one is used.

All other code calls its functions, and is the same on each Spark. It imports pyspark only when asked for that of this
process: a submitting one has none to ask.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from pathlib import Path
from typing import NamedTuple

from sparktf.errors import PreflightError

FIRST_JAVA = 17
"""The oldest Java that Spark runs on."""

_FIRST, _NEXT = (4, 1), (5, 0)
_CORE = re.compile(r"spark-core_([\d.]+)-(\d[\w.]*?)\.jar")


class SparkBuild(NamedTuple):
    """The versions of a Spark."""

    version: str
    of_scala: str


def check_pyspark() -> None:
    """Refuses the Spark of this process if sparktf does not run on it, before an import of its parts fails.

    Raises:
        PreflightError: it is too old or too new.
        ImportError: there is none.
    """
    if complaint := spark_complaint(importlib.import_module("pyspark").__version__):
        raise PreflightError(complaint)


def check_spark(home: Path) -> None:
    """Refuses an unsupported Spark, by its folder; one of unknown version may be supported.

    Raises:
        PreflightError: it is too old or too new.
    """
    found = find_build(home)
    if found is not None and (complaint := spark_complaint(found.version, str(home))):
        raise PreflightError(complaint)


def find_build(home: Path) -> SparkBuild | None:
    """Returns the versions of the Spark in a folder; None if its files do not tell."""
    jar = next(home.glob("jars/spark-core_*.jar"), None)
    found = _CORE.search(jar.name) if jar is not None else None
    return SparkBuild(version=found[2], of_scala=found[1]) if found is not None else None


def installed_pyspark() -> str | None:
    """Returns the version of the pyspark beside sparktf, without importing it; None without one."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def spark_complaint(version: str, who: str = "this") -> str | None:
    """Returns why a Spark is not supported, None if it is."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and _FIRST <= (int(found[1]), int(found[2])) < _NEXT:
        return None
    return f"{who} is Spark {version}, but sparktf needs 4.1 or a newer 4.x: set SPARK_HOME to such a version"
