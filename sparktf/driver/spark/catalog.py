"""Whether a session about to start is to find tables in a Hive metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparktf.driver.spark.jvm import has_class, has_resource

if TYPE_CHECKING:
    from pyspark import SparkConf

CATALOG = "spark.sql.catalogImplementation"

_HIVE = "org.apache.spark.sql.hive.HiveSessionStateBuilder"
_NAMES_A_METASTORE = (
    "spark.hadoop.hive.metastore.uris",
    "spark.hive.metastore.uris",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
)


def catalog_settings(conf: SparkConf) -> dict[str, str]:
    """Returns the settings of the Hive metastore, if one is configured and Spark has Hive's classes.

    `spark-submit` leaves that to the program, while `spark-sql` and the shells ask for it. Without a configured one
    they make a metastore in the working folder, which we do not.
    """
    named = any(conf.contains(key) for key in _NAMES_A_METASTORE)
    if conf.contains(CATALOG) or not has_class(_HIVE):
        return {}
    return {CATALOG: "hive"} if named or has_resource("hive-site.xml") else {}
