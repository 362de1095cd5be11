"""What `spark-submit` needs on this machine, looked at before it is started: by itself it ends with 1 for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.driver.spark.differences import FIRST_JAVA, check_spark
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS
from sparktf.process.supported import python_complaint
from sparktf.submit.environment import Programs

_NEEDED = ("numpy", "pyarrow", "pydantic", "tensorflow")
"""Of what sparktf needs, what a Python that was not made for it lacks most often; they are looked for, not imported."""

_PROBE = (
    "import importlib.util, sys; "
    "print(*sys.version_info[:2], *[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])"
)


def check_programs(config: JobConfig, programs: Programs) -> None:
    """Refuses what cannot start the driver, or the executors that are on this machine.

    Raises:
        PreflightError: it says what is missing, and where it is named.
    """
    check_spark(programs.spark_home)
    check_java(programs)
    if config.submit.deploy_mode == "client":
        check_python(programs.driver_python, "PYSPARK_DRIVER_PYTHON")
    if master_to_submit_to(config).one_machine:
        check_python(config.submit.conf.get("spark.pyspark.python", programs.python), "PYSPARK_PYTHON")


def check_java(programs: Programs) -> None:
    """Refuses where there is no Java, or one that is too old. Raises as above."""
    if programs.sets_java:
        return  # by a script of Spark's own, which nobody but it reads
    if programs.java_home is not None:
        java, named = shutil.which(str(Path(programs.java_home) / "bin/java")), f"JAVA_HOME={programs.java_home}"
        missing = f"{named} has no bin/java"
    else:
        java, named, missing = shutil.which("java"), "java", "no Java: JAVA_HOME is not set, and there is none in PATH"
    if java is None:
        raise PreflightError(f"{missing}; Spark needs Java {FIRST_JAVA} or newer: name one in JAVA_HOME")
    version = _version_of_java(Path(java).resolve().parent.parent / "release")
    if version is not None and version < FIRST_JAVA:
        raise PreflightError(
            f"{named} is Java {version}, and Spark needs {FIRST_JAVA} or newer: name another in JAVA_HOME"
        )


def check_python(python: str, setting: str) -> None:
    """Refuses a Python that cannot run sparktf; this process's own does. Raises as above.

    Args:
        setting: What names it.
    """
    if python == sys.executable:
        return
    version, missing = _asked(python, setting)
    if complaint := python_complaint(version, f"{setting}={python}"):
        raise PreflightError(complaint)
    if missing:
        raise PreflightError(
            f"{setting}={python} has no {', '.join(missing)}: name a Python that has sparktf and all it needs"
        )


def _asked(python: str, setting: str) -> tuple[tuple[int, int], Sequence[str]]:
    """Returns a Python's version, and what it lacks."""
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


def _version_of_java(release: Path) -> int | None:
    """Returns the first number of a Java's version, by the file that each has; None where it does not say."""
    try:
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return None
    return int(found[1]) if found else None
