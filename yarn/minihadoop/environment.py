"""The one place that reads this process's environment variables."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from minihadoop.errors import RefusedError

# How people call it; messages say what to type.
PROGRAM = "yarn/minihadoop.sh"


def cache_root() -> Path:
    """Returns the folder of everything minihadoop stores: $SPARKTF_CACHE, else sparktf in the user's cache."""
    if named := os.environ.get("SPARKTF_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "sparktf"


def java_home() -> Path:
    """Returns $JAVA_HOME, else the home of the `java` on the PATH.

    Raises:
        RefusedError: There is no Java in either.
    """
    named = os.environ.get("JAVA_HOME")
    java = Path(named) / "bin/java" if named else Path(shutil.which("java") or "java")
    if not java.is_file():
        where = f"JAVA_HOME={named} has no bin/java" if named else "there is no java on the PATH"
        raise RefusedError(
            f"Java 17 or newer is needed and {where}: install a JDK "
            "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or point JAVA_HOME to one"
        )
    return java.resolve().parent.parent


def environment(**added: str | Path) -> dict[str, str]:
    """Returns the environment for a process of the cluster: this one's without its Hadoop settings, and `added`."""
    foreign = ("HADOOP_", "YARN_", "HDFS_", "MAPRED_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {**kept, **{key: str(value) for key, value in added.items()}}
