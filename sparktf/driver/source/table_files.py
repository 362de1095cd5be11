"""The files of a Delta or an Iceberg table, by the plan that the table's connector made of its log; through py4j.

A table is left to Spark where a plain reader of its files would get rows wrong: rows that are deleted but still in a
file, columns under other names, files in another format.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from sparktf.driver.plan.field_ids import ids_in_table
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.spark.jvm import Java, class_of
from sparktf.driver.spark.jvm_plans import IcebergTask, iceberg_schemas, iceberg_tasks

DELTA_FORMAT = "org.apache.spark.sql.delta.DeltaParquetFileFormat"
DELTA_INDEX = "org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex"
BATCH_SCAN = "org.apache.spark.sql.execution.datasources.v2.BatchScanExec"

_ICEBERG_SCAN = "org.apache.iceberg.spark.source.SparkBatchQueryScan"
_ICEBERG_TABLE = "org.apache.iceberg.spark.source.SparkTable"
_IS_DELETED = "__delta_internal_is_row_deleted"
_NO_MAPPING = "none"
_PARQUET = "PARQUET"


class IcebergFiles(NamedTuple):
    """The files of an Iceberg scan."""

    files: tuple[str, ...]  # Sorted
    field_ids: Mapping[str, int]  # Column, or field of one ("user.age") -> its id, by which files hold it


def check_delta_filter(condition: Java) -> None:
    """Refuses a filter by which Delta leaves deleted rows out. Raises `NotPlainError` if it is one."""
    if _IS_DELETED in str(condition.sql()):
        raise NotPlainError("the Delta table has deletion vectors: rows that are deleted, but still in its files")


def check_delta_format(file_format: Java) -> None:
    """Refuses files whose columns have other names than the table's. Raises `NotPlainError` if they may."""
    mode = str(file_format.columnMappingMode().name())
    if mode != _NO_MAPPING:
        raise NotPlainError(f"the Delta table maps its columns to others in its files (columnMapping.mode: {mode})")


def iceberg_files(plan: Java) -> IcebergFiles:
    """Returns the whole files that a scan of an Iceberg table reads, pruned by its filters as Iceberg did.

    Raises:
        NotPlainError: it is the scan of something else; or rows of its files are deleted, files are encrypted, of
            another format, or read in part; or columns have been renamed.
    """
    if class_of(plan.scan()) != _ICEBERG_SCAN or class_of(plan.table()) != _ICEBERG_TABLE:
        raise NotPlainError(f"the plan has a {plan.nodeName()!s}".rstrip())
    if not plan.runtimeFilters().isEmpty():
        raise NotPlainError("the plan has a filter that is known as it runs")
    nbytes, read = dict[str, int](), Counter[str]()
    for task in iceberg_tasks(plan):
        if task.path not in nbytes:
            _check_iceberg_file(task)
            nbytes[task.path] = task.file_nbytes - task.first_byte
        read[task.path] += task.nbytes
    for path, whole in nbytes.items():
        if read[path] != whole:
            raise NotPlainError(f"the plan reads a part of {path}, or reads it twice")
    scanned, now = (ids_in_table(json.loads(schema)) for schema in iceberg_schemas(plan))
    return IcebergFiles(tuple(sorted(nbytes)), {name: i for name, i in scanned.items() if now.get(name) == i})


def _check_iceberg_file(task: IcebergTask) -> None:
    if task.has_deletes:
        raise NotPlainError(f"the Iceberg table has delete files: rows that are deleted, but still in {task.path}")
    if task.file_format != _PARQUET:
        raise NotPlainError(f"{task.path} is a file of format {task.file_format}")
    if task.is_encrypted:
        raise NotPlainError(f"{task.path} is encrypted")
