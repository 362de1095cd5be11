"""Keeps a day's predictions away from the folders that their rows are read from."""

from __future__ import annotations

from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from sparktf.driver.plan.kept_apart import check_apart, spot_of
from sparktf.driver.source.dataframe import spark_errors
from sparktf.driver.spark.jvm_plans import input_files, root_paths
from sparktf.errors import ConfigError
from sparktf.storage.file_systems import FileSystems


def check_rows_apart(rows: DataFrame, output: str, key: str, file_systems: FileSystems) -> None:
    """Refuses an output folder at, above or below a folder that a DataFrame reads, by whatever name.

    Args:
        output: The folder.
        key: Configuration key of the folder or of its table, for messages.

    Raises:
        ConfigError: the folders overlap, or the path is invalid.
        StorageError: the file system failed.
    """
    for folder in dict.fromkeys(root_paths(rows)):  # later files below them are read too
        check_apart(output, f"what is scored, {folder}", spot_of(folder, file_systems), file_systems, key)
    mine = spot_of(output, file_systems)
    for folder in _folders_of_files(rows):
        if mine.holds(spot_of(folder, file_systems)):  # a folder may lie beside a single file that is read
            raise ConfigError(f"{key}: {output} overlaps with {folder}, where the rows are: give another folder")


def table_folder(spark: SparkSession, table: str) -> str:
    """Returns the folder of a table; "" if it has none. Raises `SourceNotFoundError` without such a table."""
    with spark_errors("predict.output.table"):
        found = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    return next((str(row.data_type) for row in found if row.col_name == "Location"), "")


def _folders_of_files(rows: DataFrame) -> set[str]:
    """Returns the folders of all files that are read."""
    with spark_errors("predict.source"):
        return {unquote(file).rpartition("/")[0] for file in input_files(rows)}
