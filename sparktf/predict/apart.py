"""Whether a day's predictions go where its own rows come from."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from sparktf.driver.plan.kept_apart import check_apart, spot_of
from sparktf.driver.source.dataframe import spark_errors
from sparktf.driver.source.scan_filter import Java, class_of, elements
from sparktf.errors import ConfigError
from sparktf.storage.file_systems import FileSystems

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_RELATION, _OF_FILES = f"{_DATASOURCES}.LogicalRelation", f"{_DATASOURCES}.HadoopFsRelation"


def check_rows_apart(rows: DataFrame, output: str, key: str, file_systems: FileSystems) -> None:
    """Refuses a folder of predictions at, above or below what a DataFrame reads, however it names that.

    Args:
        output: The folder.
        key: The configuration key of the folder or of the table whose it is, for messages.

    Raises:
        ConfigError: it is; or the folder's path is none.
        StorageError: the file system failed.
    """
    for folder in dict.fromkeys(_roots(rows)):
        check_apart(output, f"what is scored, {folder}", spot_of(folder, file_systems), file_systems, key)
    mine = spot_of(output, file_systems)
    for folder in _folders_of_files(rows):
        if mine.holds(spot_of(folder, file_systems)):  # a folder may lie beside a single file that is read
            raise ConfigError(f"{key}: {output} holds what is scored, files in {folder}: give another folder")


def location_of(spark: SparkSession, table: str) -> str:
    """Returns the folder of a table; "" where it has none.

    Raises:
        SourceNotFoundError: there is no such table.
    """
    with spark_errors("predict.output.table"):
        found = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    return next((str(row.data_type) for row in found if row.col_name == "Location"), "")


def _roots(rows: DataFrame) -> Iterator[str]:
    """Yields the folders and files that are read, as they are named: what comes to lie below them is read too."""
    for leaf in elements(rows._jdf.queryExecution().analyzed().collectLeaves()):
        if class_of(leaf) == _RELATION and class_of(leaf.relation()) == _OF_FILES:
            yield from str(leaf.relation().location().rootPaths().mkString("\n")).split("\n")


def _folders_of_files(rows: DataFrame) -> set[str]:
    """Returns the folders of all files that are read. One call: a table may have millions of them."""
    jvm: Java = rows.sparkSession._jvm
    with spark_errors("predict.source"):
        files = str(jvm.org.apache.hadoop.util.StringUtils.join("\n", rows._jdf.inputFiles()))
    return {unquote(file).rpartition("/")[0] for file in files.split("\n") if file}
