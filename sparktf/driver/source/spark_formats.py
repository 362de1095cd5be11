"""The table of how Spark reads files of each format: as a DataFrame, with which types, and in many tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from sparktf.config.data_section import DataConfig
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.record_plan import IndexRecords, index_here
from sparktf.driver.source.footer_types import footer_types
from sparktf.driver.source.lake import PlannedFiles, read_lake
from sparktf.driver.source.record_frame import index_by_spark, read_record_frame, record_frame_types
from sparktf.driver.source.stored_frame import is_for_tasks, read_stored_frame
from sparktf.feed.formats.format import PARQUET, TFRECORD, format_of
from sparktf.feed.formats.record_file import RecordGroup
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems


class OpenFrame(Protocol):
    """Opens the files at `data.path` as a DataFrame."""

    def __call__(
        self, spark: SparkSession, data: DataConfig, options: Mapping[str, str], files: PlannedFiles | None
    ) -> DataFrame:
        """Runs no job.

        Args:
            options: Of Spark's reader.
            files: The files of the run's plan; None for all.

        Raises:
            SparkTFError: they are not there, or damaged.
            PySparkException, Py4JError: Spark cannot read them.
        """


TellTypes: TypeAlias = Callable[[SparkSession, FileSystems, Plan, Sequence[str]], dict[str, t.DataType] | None]
"""(session, storages, plan, columns) -> Spark's types by the plan and its files; None if only Spark knows."""

IndexBySpark: TypeAlias = Callable[[SparkSession, Storage, Sequence[str], int], Sequence[Sequence[RecordGroup]]]
"""An `IndexRecords` that runs a job."""


@dataclass(frozen=True, slots=True)
class SparkFormat:
    """How Spark reads files of a format."""

    frame: OpenFrame  # Opens them
    types: TellTypes  # Tells their types without a job of Spark's
    index: IndexBySpark | None = None  # Finds records in files without footers; None if they have footers


def spark_format(name: str) -> SparkFormat:
    """Returns how Spark reads files of a `data.format`; a name that is not in the table is a format of Spark's own."""
    return SPARK_FORMATS.get(name) or SparkFormat(_sparks_own, types=lambda *_: None)


def planned_types(
    spark: SparkSession, file_systems: FileSystems, plan: Plan, names: Sequence[str]
) -> dict[str, t.DataType] | None:
    """Returns Spark's types of columns of the files of a plan; None where Spark has to be asked.

    Raises:
        CorruptFileError: a file is damaged.
        StorageError: the storage failed.
    """
    return SPARK_FORMATS[format_of(plan.spec).name].types(spark, file_systems, plan, names)


def index_with(spark: SparkSession, data: DataConfig) -> IndexRecords:
    """Returns a function that finds records by Spark tasks, where they help."""
    index = spark_format(data.format).index
    return index_here if index is None else partial(index, spark)


def _parquet(
    spark: SparkSession, data: DataConfig, options: Mapping[str, str], files: PlannedFiles | None
) -> DataFrame:
    path = str(data.path)
    if is_for_tasks(spark, path) and not options:
        return read_stored_frame(spark, path, data.where, files)
    return read_lake(spark, path, options, data.where, files)


def _records(
    spark: SparkSession, data: DataConfig, options: Mapping[str, str], files: PlannedFiles | None
) -> DataFrame:
    del options, files
    return read_record_frame(spark, str(data.path), data.record_types, data.record_sample, "data.path")


def _sparks_own(
    spark: SparkSession, data: DataConfig, options: Mapping[str, str], files: PlannedFiles | None
) -> DataFrame:
    del files
    return spark.read.format(data.format).options(**options).load(str(data.path))


SPARK_FORMATS: Mapping[str, SparkFormat] = MappingProxyType(
    {
        PARQUET.name: SparkFormat(_parquet, footer_types),
        TFRECORD.name: SparkFormat(_records, record_frame_types, index_by_spark),
    }
)
"""Name of a format that trainers read -> how Spark reads it."""
