"""The part of Spark's own log that people see on the machine that they submit from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparktf.driver.spark.jvm import log_source

if TYPE_CHECKING:
    from pyspark import SparkConf

QUIET_LOG4J = Path(__file__).with_name("log4j2.properties")
"""Shows errors only."""

LOG_LEVEL = "spark.log.level"

# Spark's default configuration of its log, a file in its jars.
_SPARKS_DEFAULT = "org/apache/spark/log4j2-defaults.properties"


def quiet_settings(conf: SparkConf) -> dict[str, str]:
    """Returns the settings with which a new context logs errors only, unless the log is configured otherwise.

    Spark's default logs some 200 lines of a run at INFO. It is kept if somebody has configured it (a
    `log4j2.properties` of theirs, or `spark.log.level`), and in a container, whose log is nobody's terminal.
    """
    source = log_source()
    configured = conf.contains(LOG_LEVEL) or (source and not source.endswith(_SPARKS_DEFAULT))
    return {} if configured or conf.get("spark.submit.deployMode", "client") == "cluster" else {LOG_LEVEL: "ERROR"}
