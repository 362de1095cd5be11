"""The only module that reads the environment of a submitting process."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.driver.spark.masters import HERE
from sparktf.errors import PreflightError
from sparktf.hadoop import PROXY_USER
from sparktf.process.verdict_file import VARIABLE
from sparktf.storage.credentials import TOKEN_FILE, is_own_token_path

# A JVM that lives for one submission: its second compiler would cost more than it saves.
_SUBMITS_ONLY = ("-XX:TieredStopAtLevel=1",)

_MASTER = re.compile(r"^\s*spark\.master(?:\s*[=:]\s*|\s+)(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs of a submission."""

    spark_home: Path  # Folder with `bin/spark-submit`
    driver_python: str  # Python of a driver on this machine
    python: str  # Python on the nodes, unless an archive brings one
    defaults: Path | None = None  # Spark's spark-defaults.conf, if there is one
    java_home: str | None = None  # Value of JAVA_HOME; None if unset
    sets_java: bool = False  # Whether a script of Spark's may set another one

    @property
    def spark_submit(self) -> str:
        return str(self.spark_home / "bin/spark-submit")

    @property
    def spark_class(self) -> str:
        return str(self.spark_home / "bin/spark-class")


def with_proxy_user(config: JobConfig) -> JobConfig:
    """Returns a configuration with the user that the environment names, unless it has one of its own.

    Raises:
        PreflightError: it has a principal, which spark-submit takes for nobody else.
    """
    named = os.environ.get(PROXY_USER)
    if not named or config.submit.proxy_user is not None:
        return config
    if config.submit.login:
        raise PreflightError(
            f"{PROXY_USER}={named} excludes submit.principal and submit.keytab, as spark-submit does: unset it, or "
            "get a ticket of the principal with kinit and leave both out"
        )
    return config.model_copy(update={"submit": config.submit.model_copy(update={"proxy_user": named})})


def find_programs() -> Programs:
    """Returns the Spark of SPARK_HOME, else of the installed pyspark, and the Pythons for it.

    Raises:
        PreflightError: there is no Spark.
    """
    named = os.environ.get("SPARK_HOME")
    home = Path(named) if named else _pyspark()
    if home is None or not (home / "bin/spark-submit").is_file():
        where = f"SPARK_HOME={named} has no bin/spark-submit" if named else "no Spark: SPARK_HOME is not set"
        raise PreflightError(f"{where}; set SPARK_HOME, or pip install pyspark")
    settings = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    defaults = settings / "spark-defaults.conf"
    return Programs(
        spark_home=home,
        driver_python=os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable,
        python=os.environ.get("PYSPARK_PYTHON") or sys.executable,
        defaults=defaults if defaults.is_file() else None,
        java_home=os.environ.get("JAVA_HOME") or None,
        sets_java=(settings / "spark-env.sh").is_file(),
    )


def _pyspark() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def default_master(config: JobConfig) -> str:
    """Returns the default master of runs from this machine.

    It is the one of the section `submit`, where that is given or Hadoop is configured; else the one of `spark-submit`.

    Raises:
        PreflightError: there is no Spark.
    """
    if "submit" in config.model_fields_set or hadoop_conf_dir() is not None:
        return config.submit.master
    defaults = find_programs().defaults
    found = _MASTER.search(defaults.read_text(encoding="utf-8")) if defaults is not None else None
    return found.group(1) if found else HERE


def hadoop_conf_dir() -> Path | None:
    """Returns the folder of yarn-site.xml, None if neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set."""
    named = os.environ.get("YARN_CONF_DIR") or os.environ.get("HADOOP_CONF_DIR")
    return Path(named) if named else None


def spark_environment(
    programs: Programs, log4j: Path, *, in_cluster: bool, verdict: Path | None = None
) -> Mapping[str, str]:
    """Returns the environment for spark-submit and Hadoop's tools.

    Args:
        log4j: Logging of the local JVM; the user's own options come later and win.
        in_cluster: Whether that JVM only submits, since the driver is elsewhere.
        verdict: File for the verdict of a driver on this machine.
    """
    ours = (f"-Dlog4j2.configurationFile={log4j}", *(_SUBMITS_ONLY if in_cluster else ()))
    options = " ".join(filter(None, (*ours, os.environ.get("SPARK_SUBMIT_OPTS"))))
    # The line says which Python runs: PYSPARK_* of the shell would only confuse. In cluster mode Spark would put this
    # machine's PYTHONPATH before everything in the containers; a driver here needs it.
    dropped = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", *(("PYTHONPATH",) if in_cluster else ())}
    # Tokens that hdfs-native was given in this process: spark-submit takes the ticket, and gets its own, which last.
    dropped.add(PROXY_USER)  # the line says whose the run is; both at once would be a proxy of a proxy
    if is_own_token_path(os.environ.get(TOKEN_FILE, "")):
        dropped.add(TOKEN_FILE)
    kept = {k: v for k, v in os.environ.items() if k not in dropped}
    if verdict is not None:
        kept[VARIABLE] = str(verdict)
    return {**kept, "SPARK_HOME": str(programs.spark_home), "SPARK_SUBMIT_OPTS": options}
