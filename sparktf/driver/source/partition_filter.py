"""Partitions chosen by Spark SQL, so that `where` means exactly the same as in a query."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparktf.driver.spark.differences import frame_of_table, query_loggers
from sparktf.errors import ConfigError
from sparktf.feed.formats.splits import partition_type
from sparktf.sequence import PartitionValue
from sparktf.told import line_of_error

_UNKNOWN = re.compile(r"\[UNRESOLVED_COLUMN\b.*? name (`.+?`) cannot be resolved")
# A name that no partition folder has: "/" separates folders.
_ROW = "row/"


def filter_partitions(
    spark: SparkSession,
    names: Sequence[str],
    types: Sequence[str],
    rows: Sequence[tuple[PartitionValue, ...]],
    predicate: str,
) -> list[bool]:
    """Evaluates a SQL predicate over partition values; bind `spark` to get a `PartitionFilter`.

    Spark folds the filter over a local relation when it optimises the query: no job runs.

    Args:
        names: Partition columns.
        types: Their Spark types.
        rows: Partition values, one tuple per partition.

    Returns:
        For each row, whether the predicate is true of it; where it is null, it is not.

    Raises:
        ConfigError: the predicate cannot be parsed or evaluated, or uses another column.
    """
    columns = {
        name: pa.array([_arrow_value(row[i], kind) for row in rows], partition_type(kind))
        for i, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    numbered = pa.table({**columns, _ROW: pa.array(range(len(rows)), pa.int32())})
    with quiet_query_logger():
        try:
            # Without the row numbers first, so that Spark does not offer them in place of an unknown column.
            frame_of_table(spark, pa.table(columns)).where(predicate)
            chosen = frame_of_table(spark, numbered).where(predicate).select(f"`{_ROW}`").collect()
        except PySparkException as error:
            raise ConfigError(f"{predicate!r}: {_reason(error)} (partition columns: {', '.join(names)})") from error
    selected = {row[0] for row in chosen}
    return [i in selected for i in range(len(rows))]


def _reason(error: PySparkException) -> str:
    """Returns Spark's message; its suggestion for an unknown column would be a partition column of a file."""
    reason = spark_message(error)
    unknown = _UNKNOWN.match(reason)
    if unknown is None:
        return reason
    return f"{unknown[1]} is not a partition column; set `data.mode: spark` to filter by columns of the files"


def _arrow_value(value: PartitionValue, kind: str) -> PartitionValue | datetime.date | Decimal:
    if not isinstance(value, str) or kind == "string":
        return value
    return datetime.date.fromisoformat(value) if kind == "date" else Decimal(value)


def spark_message(error: PySparkException) -> str:
    """Returns Spark's message of an error, without the plan and the stack that follow."""
    return line_of_error(error).partition(" SQLSTATE")[0]


@contextmanager
def quiet_query_logger() -> Iterator[None]:
    """PySpark logs a failed query with the whole Java stack; the error that we raise has it in one line."""
    loggers = query_loggers()
    for logger in loggers:
        logger.addFilter(_nothing)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False
