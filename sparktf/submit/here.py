"""Jobs with Spark on this machine, in the process of the command that starts them."""

from __future__ import annotations

import os
import sys

from sparktf.config.job import JobConfig
from sparktf.driver.spark.log import QUIET_LOG4J
from sparktf.driver.spark.masters import master_of
from sparktf.errors import PreflightError


def local_master(config: JobConfig) -> str:
    """Returns a master of this machine with a slot for each node, and one for Spark to feed them; `local[3]`."""
    return f"local[{max(config.cluster.nodes + 1, os.cpu_count() or 1)}]"


def prepare_for_spark(master: str) -> None:
    """Has PySpark start its JVM with a master of this machine, and executors with this Python.

    What the environment says of Python, and of PySpark's own options, is kept.

    Raises:
        PreflightError: the master is not of this machine.
    """
    if not master_of(master).runs_in_driver:
        raise PreflightError(f"--master {master} is not on this machine: use sparktf submit, with submit.master")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--master {master} {conf} pyspark-shell")
    options = (f"-Dlog4j2.configurationFile={QUIET_LOG4J}", os.environ.get("SPARK_SUBMIT_OPTS"))  # later ones win
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, options))
