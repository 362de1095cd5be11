"""The driver of `sparktf doctor --nodes`: holds the executors that a run would get, for as long as they are asked."""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.config.job import JobConfig
from sparktf.driver.code.code_files import code_files
from sparktf.driver.code.foreign_imports import foreign_imports
from sparktf.driver.code.module import search_path
from sparktf.driver.gang.looking_gang import LookingGang
from sparktf.driver.gang.site import Voice
from sparktf.driver.plan.paths import normalised
from sparktf.driver.spark.executors import executors_of
from sparktf.driver.spark_site import SparkSite
from sparktf.wire.node_look import NodesFound

_SILENT = Voice(lambda line: None, lambda warning: None)


def look_at_nodes(spark: SparkSession, config: JobConfig) -> NodesFound:
    """Looks at the nodes that a run would get of an application, and lets them go.

    Raises:
        SparkTFError: a run would be refused before it holds any.
    """
    site = SparkSite(spark)
    config = normalised(config, site.file_systems.normalise)
    # That package's own cluster would be one more thing between us and the hosts, which are the same.
    cluster = config.cluster.model_copy(update={"engine": "spark"})
    config = config.model_copy(update={"cluster": cluster})
    site.preflight(config, _SILENT)
    files = code_files(config.modules, search_path(config.code_folder))
    gang = LookingGang(config, site)
    try:
        found = gang.look(foreign_imports(config.modules.values(), files), _SILENT)
        with suppress(Py4JError, OSError):
            here = tuple(executor.host for executor in executors_of(spark) if not executor.removed)
            found = found.model_copy(update={"executors": here})
        return found
    finally:
        gang.close()
