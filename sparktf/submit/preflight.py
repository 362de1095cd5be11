"""Checks this machine before `spark-submit` starts: its own exit code is 1 for any failure."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.config.submit import KEYTAB
from sparktf.driver.spark.differences import check_spark, first_java
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS
from sparktf.process.supported import python_complaint
from sparktf.submit.environment import Programs

_NEEDED = ("numpy", "pyarrow", "pydantic", "tensorflow")
"""The requirements that an unprepared Python lacks most often; they are looked for, not imported."""

_PROBE = (
    "import importlib.util, sys; "
    "print(*sys.version_info[:2], *[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])"
)


def check_programs(config: JobConfig, programs: Programs) -> None:
    """Refuses a machine that cannot start the driver, or the executors that run on it.

    Raises:
        PreflightError: names the missing program or keytab, and the setting that should name it.
    """
    check_keytab(config.submit.login.get(KEYTAB))
    check_spark(programs.spark_home)
    check_java(programs)
    if config.submit.deploy_mode == "client":
        check_python(programs.driver_python, "PYSPARK_DRIVER_PYTHON")
    if master_to_submit_to(config).one_machine:
        check_python(config.submit.conf.get("spark.pyspark.python", programs.python), "PYSPARK_PYTHON")


def check_keytab(keytab: str | None) -> None:
    """Refuses a keytab that this process cannot read; None is none. Raises `PreflightError`."""
    if keytab is None:
        return
    try:
        with Path(keytab).open("rb") as file:
            file.read(1)
    except OSError as error:
        raise PreflightError(
            f"submit.keytab: {keytab} cannot be read: {error.strerror}: name a file of this machine that its user "
            "may read, or leave submit.principal and submit.keytab out to use your ticket"
        ) from error


def check_java(programs: Programs) -> None:
    """Refuses a machine without Java, or with one that is too old. Raises `PreflightError`."""
    if programs.sets_java:
        return  # Spark's own script sets it, and only Spark can tell
    first = first_java(programs.spark_home)
    if programs.java_home is not None:
        java, named = shutil.which(str(Path(programs.java_home) / "bin/java")), f"JAVA_HOME={programs.java_home}"
        missing = f"{named} has no bin/java"
    else:
        java, named, missing = shutil.which("java"), "java", "no Java: JAVA_HOME is not set, and there is none in PATH"
    if java is None:
        raise PreflightError(f"{missing}; Spark needs Java {first} or newer: name one in JAVA_HOME")
    version = version_of_java(Path(java).resolve().parent.parent / "release")
    if version is not None and version < first:
        raise PreflightError(f"{named} is Java {version}, and Spark needs {first} or newer: name another in JAVA_HOME")


def check_python(python: str, setting: str) -> None:
    """Refuses a Python, named by `setting`, that cannot run sparktf, if not this process's. Raises `PreflightError`."""
    if python == sys.executable:
        return
    version, missing = _asked(python, setting)
    if complaint := python_complaint(version, f"{setting}={python}"):
        raise PreflightError(complaint)
    if missing:
        raise PreflightError(
            f"{setting}={python} lacks {', '.join(missing)}: name a Python that has sparktf with its requirements"
        )


def _asked(python: str, setting: str) -> tuple[tuple[int, int], Sequence[str]]:
    """Returns a Python's version, and the modules that it lacks."""
    try:
        answer = subprocess.run(
            [python, "-c", _PROBE, *_NEEDED],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=KNOBS.python_answer_s,
            check=True,
        )
        major, minor, *missing = answer.stdout.split()
        return (int(major), int(minor)), missing
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [f"it ends with {error.returncode}"])[-1]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        why = str(error)
    raise PreflightError(f"{setting}={python} cannot be run: {why}")


def version_of_java(release: Path) -> int | None:
    """Returns the major version of a Java by its `release` file; None if that does not tell."""
    try:
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return None
    return int(found[1]) if found else None
