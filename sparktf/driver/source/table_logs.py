"""Tables of Delta and Iceberg at a path, in a session without their connectors: a package of Python's reads the log.

Only trainers may read what it finds, by footers that are checked: where Spark would have to, its connector must be
there.
"""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparktf.config.job import JobConfig
from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.source.stored_frame import is_for_tasks, stored_table_frame
from sparktf.driver.source.table_version import Moment, TableVersion
from sparktf.driver.spark.application import file_systems_of
from sparktf.driver.spark.jvm import has_class
from sparktf.errors import ConfigError, SourceNotFoundError

_CONNECTORS = MappingProxyType(
    {
        "delta": "org.apache.spark.sql.delta.sources.DeltaDataSource",
        "iceberg": "org.apache.iceberg.spark.source.IcebergSource",
    }
)


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """The files of a version of a table, all of whose rows are the version's."""

    version: TableVersion
    files: tuple[str, ...]
    schema: StructType
    base: str | None  # The folder below which folders are partition columns; None where they are none
    partitions: Partitions  # With the values of each file
    field_ids: Mapping[str, int] | None = None  # See `ParquetScan`

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns its rows. Raises `ConfigError` where only Spark reads them, and has no client for their store."""
        if is_for_tasks(spark, self.files[0]) and self.field_ids is None:
            columns = StructType([field for field in self.schema if field.name not in self.partitions.names])
            return stored_table_frame(spark, self.files, columns, self.partitions)
        reader = spark.read.schema(self.schema)
        return (reader if self.base is None else reader.option("basePath", self.base)).parquet(*self.files)

    def scan(self) -> ParquetScan:
        """Returns the scan that `frame` is, without asking Spark, which may have no client for the table's storage."""
        return ParquetScan(
            files=self.files,
            columns={name: name for name in self.schema.names},
            types={field.name: field.dataType.simpleString() for field in self.schema},
            partitions=self.partitions,
            field_ids=self.field_ids,
        )


class NeedsConnectorError(ConfigError):
    """Only the connector reads a table."""


def needs_connector(source: str, kind: str, reason: str) -> NeedsConnectorError:
    """Returns the error about a table that only its connector reads.

    Args:
        source: The key that names it, with its value.
        kind: As in `TableVersion`.
        reason: For a sentence's end.
    """
    return NeedsConnectorError(
        f"{source} is {kind} that only Spark's connector reads, since {reason}: give Spark the connector's jar "
        "(spark.jars, or submit.conf)"
    )


@dataclass(frozen=True, slots=True)
class WantedVersion:
    """The version of a table that is wanted, in a log's terms; the newest if both are None."""

    number: int | None
    at: dt.datetime | None

    @classmethod
    def of(cls, moment: Moment, spark: SparkSession) -> WantedVersion:
        """Returns it, with a time that names no zone in the session's."""
        if moment.number is not None or moment.timestamp is None:
            return cls(moment.number, None)
        at = dt.datetime.fromisoformat(moment.timestamp)
        zone = ZoneInfo(str(spark.conf.get("spark.sql.session.timeZone")))
        return cls(None, at if at.tzinfo is not None else at.replace(tzinfo=zone))


def has_connector(kind: str) -> bool:
    """Whether the session reads a `data.format`, one of `TABLES`, by itself."""
    return has_class(_CONNECTORS[kind])


def open_log(spark: SparkSession, config: JobConfig, planned: int | None) -> LoggedTable | None:
    """Returns the files of the wanted version of the table at `data.path`; None if it is none, or Spark is to read it.

    Args:
        planned: The version in the run's plan.

    Raises:
        NeedsConnectorError: a plain reader would get rows of it wrong, or the package for its log is not installed.
        SourceNotFoundError: there is no such table, or no such version.
        EmptySourceError: it has no file.
        StorageError: the file system failed.
    """
    data = config.data
    if not data.names_table or data.mode == "spark" or data.options or has_connector(data.format):
        return None
    moment = Moment("data", planned, data.version, data.timestamp)
    if moment.is_to_come(spark):
        raise SourceNotFoundError(f"{moment.key}: {moment.timestamp} is in the future")
    module, package = (
        f"sparktf.driver.source.{data.format}_log",
        {"iceberg": "pyiceberg"}.get(data.format, "deltalake"),
    )
    called = f"data.path {data.path}"
    try:
        read: Callable[..., LoggedTable] = getattr(importlib.import_module(module), f"read_{data.format}_log")
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != package:
            raise
        raise NeedsConnectorError(
            f"{called}: this Spark has no connector for {data.format}, and the package {package} is not installed: "
            f"pip install 'sparktf[{data.format}]' where the driver runs, or give Spark the connector's jar"
        ) from error
    wanted = WantedVersion.of(moment, spark)

    def missing(reason: str) -> SourceNotFoundError:
        return SourceNotFoundError(moment.not_found(called, reason))

    return read(file_systems_of(spark), str(data.path), wanted, called, missing)


Missing = Callable[[str], SourceNotFoundError]
"""(reason) -> the error about a version that is not there."""


def has_values(values: Any, folder: Mapping[str, str]) -> bool:
    """Whether the partition values in a log are those in the name of a file's folders."""
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else value for name, value in folder.items()} == {
        name: None if value is None else str(value) for name, value in values.items()
    }
