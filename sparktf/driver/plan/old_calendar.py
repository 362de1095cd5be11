"""The calendar of a file's dates: Spark before 3.0, and later by a setting, wrote the old one.

Spark converts such values as it reads them, by rules of its own; Arrow takes them as they are. They are the same from
1582-10-15 on for dates, and from 1900 on for timestamps, before which zones of the two libraries differ.
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.feed.formats.parquet_file import leaf_columns

_WRITER = b"org.apache.spark.version"
_LEGACY = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"
_JAVA_WRITER = "parquet-mr"

_INT96 = "INT96"
_DATE, _TIMESTAMP = "DATE", "TIMESTAMP"

_FIRST_DAY = -141_427
"""1582-10-15."""

_FIRST_SECOND = -2_208_988_800
"""1900-01-01 UTC."""

_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def check_calendar(path: str, metadata: pq.FileMetaData, columns: frozenset[str], reads: SparkReads) -> None:
    """Checks that Spark takes the dates and timestamps of a file as they are: by its writer, else by its statistics.

    Args:
        columns: The columns and fields that are read.

    Raises:
        NotPlainError: it may convert some.
    """
    written = metadata.metadata or {}
    version = written.get(_WRITER)
    if version is None:
        rebases, rebases_int96 = reads.rebases_unknown, reads.rebases_unknown_int96
    else:  # compared as text, as Spark does
        rebases = version < b"3.0.0" or _LEGACY in written
        rebases_int96 = version < b"3.1.0" or _LEGACY_INT96 in written
    rebases_int96 |= reads.shifts_int96 and not str(metadata.created_by or "").startswith(_JAVA_WRITER)
    if not (rebases or rebases_int96):
        return
    for leaf in leaf_columns(metadata, columns):
        column = metadata.schema.column(leaf)
        if column.physical_type == _INT96:
            if rebases_int96:
                raise NotPlainError(
                    f"{path} may have dates of the old calendar, or times in another time zone (INT96 timestamps in "
                    f"{column.path!r}, which have no statistics)"
                )
        elif rebases and not _is_later(metadata, leaf):
            raise NotPlainError(f"{path} may have dates of the old calendar (in {column.path!r}, by its statistics)")


def _is_later(metadata: pq.FileMetaData, leaf: int) -> bool:
    """Whether all values of a column are known to be the same in both calendars."""
    first = _first(metadata.schema.column(leaf))
    if first is None:
        return True
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return all(_least(group.column(leaf).statistics, first) >= first for group in groups if group.num_rows)


def _least(statistics: pq.Statistics | None, first: int) -> int:
    """Returns a lower bound of the values."""
    if statistics is None:
        return first - 1
    if statistics.has_min_max:
        return int(statistics.min_raw)
    only_nulls = statistics.has_null_count and statistics.null_count and not statistics.num_values
    return first if only_nulls else first - 1


def _first(column: pq.ColumnSchema) -> int | None:
    """Returns the first value that is the same in both calendars; None where a column has neither dates nor times."""
    kind = column.logical_type.type
    if kind == _DATE:
        return _FIRST_DAY
    if kind == _TIMESTAMP:
        unit = json.loads(column.logical_type.to_json())["timeUnit"]
        return _FIRST_SECOND * _PER_SECOND[unit]
    return None
