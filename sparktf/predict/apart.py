"""Whether a day's predictions go where its own rows come from."""

from __future__ import annotations

from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from sparktf.driver.plan.kept_apart import check_apart, spot_of
from sparktf.driver.source.dataframe import spark_errors
from sparktf.driver.spark.jvm_plans import input_files, root_paths
from sparktf.errors import ConfigError
from sparktf.storage.file_systems import FileSystems


def check_rows_apart(rows: DataFrame, output: str, key: str, file_systems: FileSystems) -> None:
    """Refuses a folder of predictions at, above or below what a DataFrame reads, however it names that.

    Args:
        output: The folder.
        key: The configuration key of the folder or of the table whose it is, for messages.

    Raises:
        ConfigError: it is; or the folder's path is none.
        StorageError: the file system failed.
    """
    for folder in dict.fromkeys(root_paths(rows)):  # what comes to lie below them is read too
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


def _folders_of_files(rows: DataFrame) -> set[str]:
    """Returns the folders of all files that are read."""
    with spark_errors("predict.source"):
        return {unquote(file).rpartition("/")[0] for file in input_files(rows)}
