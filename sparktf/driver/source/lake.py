"""A lake of Parquet files as Spark reads it: every file below the folder, or with a plan exactly that plan's files.

By itself Spark descends into folders only if these are partition columns (`date=2026-11-20/`); otherwise it lists
nothing but the root, without a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructField, StructType

from sparktf.driver.plan.plan import Plan
from sparktf.driver.source.partition_filter import spark_message
from sparktf.driver.source.scan import files_scanned, folders_are_columns
from sparktf.driver.spark.differences import type_of_ddl
from sparktf.sequence import Stream

NO_FILES = ("UNABLE_TO_INFER_SCHEMA", "Unable to infer schema")
"""Spark's messages when it sees no file."""

_GLOB = re.compile(r"[\\{}\[\]*?]")
_RECURSIVE = "recursiveFileLookup"


class PlannedFiles(NamedTuple):
    """The files that trainers read, by the run's plan."""

    paths: tuple[str, ...]  # Of `data.path`, followed by those of `data.validation.path`
    newest: str  # The last training file, which has columns that were added later
    # Columns that some of them have no value of -> their type: Spark would take another one from such a file
    types: Mapping[str, str]
    least: int  # The least number of them that are at `data.path`
    most: int  # The greatest number

    @classmethod
    def of(cls, plan: Plan) -> PlannedFiles | None:
        """Returns the files of a plan; None where it has none."""
        trained = plan.tables.get(Stream.TRAIN)
        if trained is None or not trained.file.size:
            return None
        newest = int(trained.file.max())
        held_out = plan.tables.get(Stream.VALIDATION)
        first = 0 if held_out is None else int(held_out.file.min(initial=len(plan.files)))
        # Validation has a path of its own where all its files come behind: one without rows may be of either.
        if first > newest:
            return cls(plan.files, plan.files[newest], plan.spec.untyped, newest + 1, first)
        return cls(plan.files, plan.files[newest], plan.spec.untyped, len(plan.files), len(plan.files))


def read_lake(
    spark: SparkSession, path: str, options: Mapping[str, str], where: str | None, planned: PlannedFiles | None
) -> DataFrame:
    """Returns every row below a path; with a plan, the rows of its files that pass `where`.

    Args:
        where: The predicate by which the plan has chosen files.

    Raises:
        PySparkException, Py4JError: Spark cannot read it.
    """

    def reader() -> DataFrameReader:
        return spark.read.format("parquet").options(**options)

    # Who has Spark merge the schemas of all files has all columns anyway.
    schema = None
    if planned is not None and spark.conf.get("spark.sql.parquet.mergeSchema") != "true":
        schema = _schema(spark, planned)
    lake = _all_below(reader if schema is None else lambda: reader().schema(schema), path)
    if planned is None:
        return lake
    found = files_scanned(lake if where is None else lake.where(where))
    if found is None or planned.least <= found <= planned.most:
        return lake
    named = [_literal(file) for file in planned.paths[: planned.most]]
    return reader().schema(lake.schema).option("basePath", path).load(named)


def _all_below(reader: Callable[[], DataFrameReader], path: str) -> DataFrame:
    try:
        lake = reader().load(path)
    except PySparkException as error:
        if not any(sign in spark_message(error) for sign in NO_FILES):
            raise
    else:
        if folders_are_columns(lake) is not False:
            return lake
    return reader().option(_RECURSIVE, "true").load(path)


def _schema(spark: SparkSession, planned: PlannedFiles) -> StructType:
    """Returns the columns of the newest file; those of partition folders get the common type of all their values."""
    columns = spark.read.parquet(_literal(planned.newest)).schema
    types = {name: type_of_ddl(kind) for name, kind in planned.types.items()}
    own = [field for field in columns if f"/{field.name}=" not in planned.newest]
    return StructType([StructField(field.name, types.get(field.name, field.dataType)) for field in own])


def _literal(path: str) -> str:
    return _GLOB.sub(r"\\\g<0>", path)
