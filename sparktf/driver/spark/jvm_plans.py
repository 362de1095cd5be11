"""The structure of a DataFrame in Spark's JVM: its plans, and the files that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from sparktf.driver.spark.jvm import Java, class_of, elements, java

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_RELATION, _OF_FILES = f"{_DATASOURCES}.LogicalRelation", f"{_DATASOURCES}.HadoopFsRelation"


def analyzed_plan(df: DataFrame) -> Java:
    """Returns the logical plan of a DataFrame with its tables and columns resolved, before optimization."""
    return _execution(df).analyzed()


def physical_plan(df: DataFrame) -> Java:
    """Returns the plan by which Spark would run a DataFrame; Spark makes it and lists files for it."""
    return _execution(df).sparkPlan()


def root_paths(df: DataFrame) -> Iterator[str]:
    """Yields the folders and files that a DataFrame reads, as they are named."""
    for leaf in elements(analyzed_plan(df).collectLeaves()):
        if class_of(leaf) == _RELATION and class_of(leaf.relation()) == _OF_FILES:
            yield from str(leaf.relation().location().rootPaths().mkString("\n")).split("\n")


def input_files(df: DataFrame) -> list[str]:
    """Returns the files that a DataFrame reads. One call over py4j: a table may have millions of them."""
    frame: Any = df._jdf
    files = str(java().org.apache.hadoop.util.StringUtils.join("\n", frame.inputFiles()))
    return [file for file in files.split("\n") if file]


def iceberg_schemas(scan: Java) -> tuple[str, str]:
    """Returns the columns of the snapshot that a scan of an Iceberg table reads, and those of the table now: Iceberg's
    JSON.
    """
    iceberg, table = java().org.apache.iceberg, scan.table().table()
    then = iceberg.util.SnapshotUtil.schemaFor(table, scan.scan().snapshotId())
    return str(iceberg.SchemaParser.toJson(then)), str(iceberg.SchemaParser.toJson(table.schema()))


def _execution(df: DataFrame) -> Java:
    return df._jdf.queryExecution()
