"""The differences between the versions of Spark: only this file asks which one is used.

All other code calls its functions, and is the same on each Spark. It imports pyspark only when asked for that of this
process: a submitting one has none to ask.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sparktf.errors import PreflightError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_FIRST, _NEXT = (3, 5, 1), (5, 0, 0)
_MODERN = (4, 0, 0)
"""The first Spark that knows Arrow's tables, and has a logger of queries."""

_WITH_TIMES = (4, 1, 0)
"""The first Spark that takes 12:30:00 in a folder's name for a time of day."""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_WRITTEN = re.compile(r"""^__version__\b.*=\s*["'](.+?)["']""", re.MULTILINE)
_CORE = re.compile(r"spark-core_([\d.]+)-(\d[\w.]*?)\.jar")
_PIECE_ROWS = 1 << 16


class SparkBuild(NamedTuple):
    """The versions of a Spark."""

    version: str
    of_scala: str


def check_pyspark() -> None:
    """Refuses the Spark of this process if sparktf does not run on it, before any of it is imported.

    Raises:
        PreflightError: it is too old or too new.
        ImportError: there is none.
    """
    if complaint := spark_complaint(_version_here()):
        raise PreflightError(complaint)


def check_spark(home: Path) -> None:
    """Refuses an unsupported Spark, by its folder; one of unknown version may be supported.

    Raises:
        PreflightError: it is too old or too new.
    """
    found = find_build(home)
    if found is not None and (complaint := spark_complaint(found.version, str(home))):
        raise PreflightError(complaint)


def find_build(home: Path) -> SparkBuild | None:
    """Returns the versions of the Spark in a folder; None if its files do not tell."""
    jar = next(home.glob("jars/spark-core_*.jar"), None)
    found = _CORE.search(jar.name) if jar is not None else None
    return SparkBuild(version=found[2], of_scala=found[1]) if found is not None else None


def installed_pyspark() -> str | None:
    """Returns the version of the pyspark beside sparktf, without importing it; None without one."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def spark_complaint(version: str, who: str = "this") -> str | None:
    """Returns why a Spark is not supported, None if it is."""
    numbers = _numbers(version)
    if numbers is not None and _FIRST <= numbers < _NEXT:
        return None
    return f"{who} is Spark {version}, but sparktf needs 3.5.1 or newer, below 5: set SPARK_HOME to such a version"


def first_java(home: Path) -> int:
    """Returns the oldest Java that the Spark in a folder runs on, by Spark's own word."""
    build = find_build(home)
    numbers = _numbers(build.version) if build is not None else None
    return 8 if numbers is not None and numbers < _MODERN else 17


def query_loggers() -> list[logging.Logger]:
    """Returns the loggers to which PySpark writes failed queries; Spark 3.5 writes none."""
    if not _is_modern():
        return []
    return [importlib.import_module("pyspark.logger").PySparkLogger.getLogger("SQLQueryContextLogger")]


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Returns a table of any size as a DataFrame. A small one is a part of the query's plan: no job filters it."""
    if _is_modern():
        frame: DataFrame = spark.createDataFrame(table)
        return frame
    schema = _schema_of(table)
    plain = _localized(table, str(spark.conf.get("spark.sql.session.timeZone"))).cast(
        schema_as_arrow(spark, schema), safe=False
    )
    batches = plain.to_batches(_PIECE_ROWS) or plain.schema.empty_table().to_batches()
    from sparktf.driver.spark.jvm_batches import frame_of_batches  # noqa: PLC0415 - a submitting process has no pyspark

    return frame_of_batches(spark, batches, schema)


def schema_as_arrow(spark: SparkSession, schema: StructType) -> pa.Schema:
    """Returns a schema as Spark gives it to Python's functions. Raises `PySparkException` for a type without one."""
    if _is_modern():
        return spark.createDataFrame([], schema).toArrow().schema
    return importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema(schema)


def type_of_ddl(ddl: str) -> DataType:
    """Returns the type, or the columns, that a text means. Raises `PySparkException` for what is neither."""
    types: Any = importlib.import_module("pyspark.sql.types")
    parsed: DataType = types.DataType.fromDDL(ddl) if _is_modern() else types._parse_datatype_string(ddl)
    return parsed


def has_times_of_day() -> bool:
    """Returns whether a partition's value may be a time of day to Spark."""
    return _is_at_least(_WITH_TIMES)


def for_metadata(spark: SparkSession) -> SparkSession | SparkContext:
    """Returns by what Spark ML's readers and writers of metadata reach storage."""
    return spark if _is_modern() else spark.sparkContext


def _is_modern() -> bool:
    return _is_at_least(_MODERN)


def _is_at_least(first: tuple[int, int, int]) -> bool:
    numbers = _numbers(importlib.import_module("pyspark").__version__)
    return numbers is not None and numbers >= first


def _numbers(version: str) -> tuple[int, int, int] | None:
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found is not None else None


def _version_here() -> str:
    """Returns the version of this process's pyspark, as it is written there: in a folder, or in an archive."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    loader: Any = spec.loader
    try:
        text = loader.get_data(str(Path(spec.submodule_search_locations[0]) / "version.py")).decode()
    except (OSError, AttributeError):
        text = ""
    found = _WRITTEN.search(text)
    return found[1] if found is not None else "of unknown version"


def _schema_of(table: pa.Table) -> StructType:
    types: Any = importlib.import_module("pyspark.sql.pandas.types")
    is_plain: bool = importlib.import_module("pyspark.sql.utils").is_timestamp_ntz_preferred()
    schema: StructType = types.from_arrow_schema(table.schema, prefer_timestamp_ntz=is_plain)
    return schema


def _localized(table: pa.Table, zone: str) -> pa.Table:
    """Returns a table whose times without a zone are the session's, where Spark takes them for such."""
    if importlib.import_module("pyspark.sql.utils").is_timestamp_ntz_preferred():
        return table
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            table = table.set_column(i, field.name, pc.assume_timezone(table.column(i), zone))
    return table
