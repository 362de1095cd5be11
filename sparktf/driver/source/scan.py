"""Whether a DataFrame is a plain scan of Parquet files: read off Spark's own physical plan, through py4j.

An allowlist: projections of plain columns over one scan by Spark's own Parquet format, with filters over partition
columns, and those that compare columns in the files with constants (`sparktf.driver.source.scan_filter`). All other
plans are not plain, including those that other versions of Spark make in another way. Nothing is run; Spark plans the
query and lists the files, as it would to run it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.driver.source.scan_filter import (
    COLUMN,
    EXPRESSIONS,
    Compared,
    column_id,
    comparisons,
)
from sparktf.driver.source.table_files import (
    BATCH_SCAN,
    DELTA_FORMAT,
    DELTA_INDEX,
    check_delta_filter,
    check_delta_format,
    iceberg_files,
)
from sparktf.driver.spark.differences import has_times_of_day
from sparktf.driver.spark.jvm import Java, class_of, elements
from sparktf.driver.spark.jvm_plans import physical_plan
from sparktf.feed.formats.splits import PARTITION_TYPES
from sparktf.sequence import PartitionValue
from sparktf.told import line_of_error

_EXECUTION = "org.apache.spark.sql.execution"
_PROJECT = f"{_EXECUTION}.ProjectExec"
_FILTER = f"{_EXECUTION}.FilterExec"
_SCAN = f"{_EXECUTION}.FileSourceScanExec"
_CACHED = f"{_EXECUTION}.columnar.InMemoryTableScanExec"
_RELATION = f"{_EXECUTION}.datasources.HadoopFsRelation"
# Formats of others are subclasses of Spark's: only the exact class will do.
_PARQUET = f"{_EXECUTION}.datasources.parquet.ParquetFileFormat"
_INDEXES = tuple(
    f"{_EXECUTION}.datasources.{name}" for name in ("InMemoryFileIndex", "PrunedInMemoryFileIndex", "CatalogFileIndex")
)
_LISTED_BY = {_PARQUET: _INDEXES, DELTA_FORMAT: (DELTA_INDEX,)}
_ALIAS = f"{EXPRESSIONS}.Alias"

# Options that only say which files are listed, how schemas are inferred, or how files are written.
_HARMLESS = {
    "path",
    "paths",
    "basepath",
    "pathglobfilter",
    "recursivefilelookup",
    "modifiedbefore",
    "modifiedafter",
    "mergeschema",
    "compression",
    "serialization.format",
}
_WRITERS_OPTION = "parquet."

_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
_REBASE_INT96 = "spark.sql.parquet.int96RebaseModeInRead"
_SHIFT_INT96 = "spark.sql.parquet.int96TimestampConversion"
_AS_WRITTEN = "CORRECTED"
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_CASE = "spark.sql.caseSensitive"
_ZONE = "spark.sql.session.timeZone"
_TIMESTAMPS = "spark.sql.timestampType"
_FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
_FIELD_ID = '"parquet.field.id"'

# Hadoop prints a file's status so; a whole folder of them is one call instead of several for each file.
_FILE = re.compile(r"\bpath=(.*?); isDirectory=false; length=(\d+);", re.DOTALL)

_IS_CACHED = "the DataFrame, or a part of it, is cached"

_EPOCH = datetime.date(1970, 1, 1).toordinal()


def plain_scan(df: DataFrame) -> ParquetScan:
    """Returns a DataFrame's scan. Raises `NotPlainError` if it is no plain one."""
    try:
        return _scan(df)
    except NotPlainError:
        raise
    except (Py4JError, PySparkException, AttributeError, TypeError, ValueError) as error:
        raise NotPlainError(f"the plan cannot be inspected ({line_of_error(error)})") from error


def folders_are_columns(df: DataFrame) -> bool | None:
    """Returns whether the files of a DataFrame have partition columns; None where Spark does not show it."""
    scan = _scan_of(df)
    return None if scan is None else int(scan.relation().partitionSchema().length()) > 0


def files_scanned(df: DataFrame) -> int | None:
    """Returns the number of nonempty files that a DataFrame reads; None where Spark does not show it."""
    scan = _scan_of(df)
    if scan is None:
        return None
    listing = scan.relation().location().listFiles(scan.partitionFilters(), scan.dataFilters())
    return sum(int(directory.files().size()) for directory in elements(listing.toIndexedSeq()))


def _scan_of(df: DataFrame) -> Java | None:
    """Returns the scan of files below filters and projections."""
    plan = physical_plan(df)
    while class_of(plan) in (_PROJECT, _FILTER):
        plan = plan.children().apply(0)
    return plan if class_of(plan) == _SCAN else None


def spark_reads(spark: SparkSession) -> SparkReads:
    """Returns a session's settings about reading files."""
    return SparkReads(
        zone=_zone(spark),
        infers_partitions=_setting(spark, _INFERENCE) == "TRUE",
        infers_times=has_times_of_day(),
        case_sensitive=_setting(spark, _CASE) == "TRUE",
        rebases_unknown=_setting(spark, _REBASE) != _AS_WRITTEN,
        rebases_unknown_int96=_setting(spark, _REBASE_INT96) != _AS_WRITTEN,
        shifts_int96=_setting(spark, _SHIFT_INT96) != "FALSE",
    )


def _zone(spark: SparkSession) -> str:
    """Returns the zone of the session's timestamps; "" if Python does not know it, or timestamps have none."""
    zone = str(spark.conf.get(_ZONE))
    try:
        is_known = zone == "UTC" or bool(ZoneInfo(zone).key)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ""
    return zone if is_known and _setting(spark, _TIMESTAMPS) == "TIMESTAMP_LTZ" else ""


def _setting(spark: SparkSession, key: str) -> str:
    return str(spark.conf.get(key)).upper()


def _scan(df: DataFrame) -> ParquetScan:
    schema = df.schema
    _check_names(schema)
    # Its plan may have been made before it was cached.
    if df.storageLevel.useMemory or df.storageLevel.useDisk:
        raise NotPlainError(_IS_CACHED)
    scan, ids, found = _below_projections(physical_plan(df))
    if class_of(scan) == BATCH_SCAN:
        return _iceberg_scan(schema, scan, ids, found)
    relation = scan.relation()
    _check_relation(scan, relation, is_filtered=bool(found))
    _check_settings(df, relation)
    in_scan = {column_id(column): str(column.name()) for column in elements(scan.output())}
    columns = {name: in_scan[i] for name, i in ids.items()}
    partition_schema = _schema(relation.partitionSchema())
    known = {*_schema(relation.dataSchema()).names, *partition_schema.names}
    for name, in_file in columns.items():
        if in_file not in known:
            raise NotPlainError(f"column {name!r} is not in the files")
    where = tuple(compared.named(in_scan[compared.id]) for compared in found)
    in_rows = known.difference(partition_schema.names)
    if any(comparison.column not in in_rows or "." in comparison.column for comparison in where):
        raise NotPlainError("the plan has a filter on columns that the files' rows do not have")
    listed = sorted(_list_files(scan, relation, partition_schema), key=itemgetter(0))
    partitions = _partitions(partition_schema, columns, [values for _, values in listed])
    return ParquetScan(
        files=tuple(path for path, _ in listed),
        columns=columns,
        types={field.name: field.dataType.simpleString() for field in schema},
        partitions=partitions,
        where=where,
        compared={in_scan[compared.id]: compared.kind for compared in found},
        rebases_unknown=_setting(df.sparkSession, _REBASE) != _AS_WRITTEN,
    )


def _iceberg_scan(schema: StructType, scan: Java, ids: Mapping[str, str], found: Sequence[Compared]) -> ParquetScan:
    """Returns a scan of an Iceberg table: its files hold all columns, and Iceberg converts none."""
    files, field_ids = iceberg_files(scan)
    in_scan = {column_id(column): str(column.name()) for column in elements(scan.output())}
    return ParquetScan(
        files=files,
        columns={name: in_scan[i] for name, i in ids.items()},
        types={field.name: field.dataType.simpleString() for field in schema},
        partitions=Partitions((), (), ((),) * len(files)),
        where=tuple(compared.named(in_scan[compared.id]) for compared in found),
        compared={in_scan[compared.id]: compared.kind for compared in found},
        field_ids=field_ids,
    )


def _check_names(schema: StructType) -> None:
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise NotPlainError(f"two columns are called {name!r}")
        seen.add(name)


def _below_projections(plan: Java) -> tuple[Java, dict[str, str], list[Compared]]:
    """Returns the scan below projections and filters, for each column of the plan its id there, and the filters."""
    ids = {str(column.name()): column_id(column) for column in elements(plan.output())}
    found: list[Compared] = []
    while class_of(plan) in (_PROJECT, _FILTER):
        if class_of(plan) == _FILTER:
            check_delta_filter(plan.condition())
            found += comparisons(plan.condition())
        else:
            below = dict(map(_passed_on, elements(plan.projectList())))
            ids = {name: below[i] for name, i in ids.items()}
            found = [compared._replace(id=below[compared.id]) for compared in found]
        plan = plan.children().apply(0)
    if class_of(plan) not in (_SCAN, BATCH_SCAN):
        raise NotPlainError(_stranger(plan))
    return plan, ids, found


def _passed_on(expression: Java) -> tuple[str, str]:
    """Returns the ids of a projection's column and of the one that it passes on."""
    source = expression.child() if class_of(expression) == _ALIAS else expression
    if class_of(source) != COLUMN:
        raise NotPlainError(f"column {str(expression.name())!r} is computed")
    return column_id(expression), column_id(source)


def _stranger(plan: Java) -> str:
    if class_of(plan) == _CACHED:
        return _IS_CACHED
    name = str(plan.nodeName()).strip()
    return f"the plan has {'an' if name[:1] in 'AEIO' else 'a'} {name}"


def _check_relation(scan: Java, relation: Java, *, is_filtered: bool) -> None:
    """Refuses files that are not plain Parquet, and scans that do not read all of each file.

    Args:
        is_filtered: Whether filters are above the scan: then those in it only skip row groups.
    """
    if class_of(relation) != _RELATION:
        raise NotPlainError(f"the files belong to a {_short(relation)}")
    form = class_of(relation.fileFormat())
    if form not in _LISTED_BY:
        raise NotPlainError(f"the files are read by {_short(relation.fileFormat())}")
    if class_of(relation.location()) not in _LISTED_BY[form]:
        raise NotPlainError(f"the files are listed by {_short(relation.location())}")
    if form == DELTA_FORMAT:
        check_delta_format(relation.fileFormat())
    if relation.bucketSpec().isDefined() or scan.optionalBucketSet().isDefined():
        raise NotPlainError("the table is bucketed")
    if not (is_filtered or scan.dataFilters().isEmpty()):
        raise NotPlainError("the scan has a filter on columns in the files")
    if not scan.subqueries().isEmpty():
        raise NotPlainError("a filter has a subquery")


def _check_settings(df: DataFrame, relation: Java) -> None:
    for option in filter(None, str(relation.options().keySet().mkString("\n")).split("\n")):
        if option.lower() not in _HARMLESS and not option.lower().startswith(_WRITERS_OPTION):
            raise NotPlainError(f"the files are read with option {option}")
    # Delta sets it in every session, and Spark goes by ids only where columns have some.
    if _setting(df.sparkSession, _FIELD_IDS) != "FALSE" and _FIELD_ID in str(relation.dataSchema().json()):
        raise NotPlainError(f"{_FIELD_IDS} is set, and the columns have ids")


def _list_files(
    scan: Java, relation: Java, partition_schema: StructType
) -> Iterator[tuple[str, tuple[PartitionValue, ...]]]:
    """Yields the nonempty files, with all their partition values as Spark has them."""
    listing = relation.location().listFiles(scan.partitionFilters(), scan.dataFilters())
    types = [relation.partitionSchema().apply(i).dataType() for i in range(len(partition_schema))]
    for directory in elements(listing.toIndexedSeq()):
        row, files = directory.values(), directory.files()
        values = tuple(_value(row.get(i, kind)) for i, kind in enumerate(types))
        found = _FILE.findall(str(files.mkString("\n")))
        if len(found) != files.size():
            raise NotPlainError("the plan cannot be inspected (files are listed in an unknown form)")
        yield from ((path, values) for path, nbytes in found if int(nbytes))


def _value(value: Any) -> PartitionValue:
    return value if value is None or isinstance(value, (int, float)) else str(value.toString())


def _partitions(
    schema: StructType, columns: Mapping[str, str], rows: Sequence[tuple[PartitionValue, ...]]
) -> Partitions:
    """Returns the DataFrame's partition columns, by its names."""
    position = {name: i for i, name in enumerate(schema.names)}
    names = [name for name, in_scan in columns.items() if in_scan in position]
    kinds = [schema[columns[name]].dataType.simpleString() for name in names]
    for name, kind in zip(names, kinds, strict=True):
        if kind not in PARTITION_TYPES:
            raise NotPlainError(f"partition column {name!r} is of type {kind}")
    at = [(position[columns[name]], kind == "date") for name, kind in zip(names, kinds, strict=True)]
    values = tuple(tuple(_day(row[i]) if is_date else row[i] for i, is_date in at) for row in rows)
    return Partitions(tuple(names), tuple(kinds), values)


def _day(value: PartitionValue) -> PartitionValue:
    return datetime.date.fromordinal(_EPOCH + value).isoformat() if isinstance(value, int) else None


def _schema(schema: Java) -> StructType:
    return StructType.fromJson(json.loads(str(schema.json())))


def _short(value: Java) -> str:
    return class_of(value).rpartition(".")[2]
