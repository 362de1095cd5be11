"""The DataFrame or RDD that a configuration names, in any of the ways to name one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparktf.config.data_section import NO_SOURCE
from sparktf.config.job import JobConfig
from sparktf.driver.code.module import UsersCode, load_module
from sparktf.driver.source.lake import NO_FILES, PlannedFiles
from sparktf.driver.source.partition_filter import quiet_query_logger, spark_message
from sparktf.driver.source.spark_formats import spark_format
from sparktf.driver.source.table_version import VERSION_OPTION, Moment, TableVersion, list_in_order, table_version_of
from sparktf.driver.spark.catalog import CATALOG
from sparktf.errors import ConfigError, DataError, EmptySourceError, SourceNotFoundError, SparkTFError, StorageError
from sparktf.told import first_line_of, line_of_error

Data: TypeAlias = DataFrame | RDD[Any]
"""A source of rows."""

Read: TypeAlias = Callable[[Mapping[str, str]], DataFrame]
"""Opens a table with options of Spark's reader."""


class Opened(NamedTuple):
    """The data of a configuration."""

    data: Data
    # Of a Delta or an Iceberg table; later looks at the data read the same one
    version: TableVersion | None = None


_NOT_FOUND = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "PATH_NOT_FOUND",
    "Path does not exist",
    "DELTA_TABLE_NOT_FOUND",
)
_SPARKS_OWN = "org.apache.spark."
_NO_VERSIONS = "UNSUPPORTED_FEATURE.TIME_TRAVEL"
_VERSION_NOT_FOUND = (
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "Cannot find snapshot with ID",
    "Cannot find a snapshot older than",
)
_UNCHANGED_SINCE = "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"


def open_dataframe(
    spark: SparkSession,
    config: JobConfig,
    data: object = None,
    *,
    files: PlannedFiles | None = None,
    planned: int | None = None,
    section: str = "data",
) -> Opened:
    """Returns the configuration's data, or `data`, if that was handed to `train()`; runs no job.

    Args:
        files: The lake's files in the run's plan; None for all files, with columns as Spark finds them.
        planned: The version of a table in the run's plan.
        section: The section that names the source, for messages.

    Raises:
        ConfigError: nothing is named, or two things are; Spark refuses the query or the format; `data.source` names no
            function, or one that returns something else; a version is wanted of a source without versions.
        SourceNotFoundError: there is no such path, table, view or version.
        EmptySourceError: no file lies at the path.
        ModelError: the function that `data.source` names raised.
        StorageError: the file system or the catalog failed.
    """
    key = config.data.source_key
    list_in_order()
    if data is not None:
        return Opened(_handed(data, key))
    if key is None:
        raise ConfigError(f"{NO_SOURCE}, or hand a DataFrame to train()")
    if key == "source":
        return Opened(_called(spark, config))
    value, source = getattr(config.data, key), f"{section}.{key}"
    readers: dict[str, Read] = {
        "path": lambda options: spark_format(config.data.format).frame(
            spark, config.data, {**config.data.reader_options, **options}, files
        ),
        "table": lambda options: spark.read.options(**options).table(value),
    }
    try:
        with spark_errors(source):
            if key == "sql":
                return Opened(_batch(spark.sql(value), source))
            moment = Moment(section, planned, config.data.version, config.data.timestamp)
            return _table(spark, readers[key], moment, source, value)
    except SourceNotFoundError as error:
        is_there = not any(sign in str(error) for sign in _NOT_FOUND)
        if is_there or key == "path" or spark.conf.get(CATALOG, "in-memory") != "in-memory":
            raise
        raise SourceNotFoundError(
            f"{error} (this session has no Hive metastore: put hive-site.xml into SPARK_CONF_DIR, or set "
            f"{CATALOG}=hive)"
        ) from error


def _table(spark: SparkSession, read: Read, moment: Moment, source: str, name: str) -> Opened:
    """Opens a source, named by the key `source`; a table with older versions at one of them, since it may change."""
    called = f"{source} {name}"
    if moment.is_to_come(spark):
        raise SourceNotFoundError(f"{moment.key}: {moment.timestamp} is in the future")
    try:
        df = _as_of(read, moment)
    except PySparkException as error:
        reason = spark_message(error)
        if _NO_VERSIONS in reason:
            raise ConfigError(moment.without_versions(called)) from error
        if any(sign in reason for sign in _VERSION_NOT_FOUND):
            raise SourceNotFoundError(moment.not_found(called, reason)) from error
        raise
    _batch(df, source)
    version = table_version_of(df)
    if version is None and moment.options:
        raise ConfigError(moment.without_versions(called))
    if version is not None and moment.number is None:
        df = read({VERSION_OPTION: str(version.number)})
    return Opened(df, version)


def _as_of(read: Read, moment: Moment) -> DataFrame:
    try:
        return read(moment.options)
    except PySparkException as error:
        # Delta's word for a moment after its last commit, at which the table was what it is now.
        if _UNCHANGED_SINCE not in spark_message(error):
            raise
    newest = read({})
    version = table_version_of(newest)
    try:
        return read(moment.options)  # a commit may have come in between
    except PySparkException as error:
        if _UNCHANGED_SINCE not in spark_message(error) or version is None:
            raise
        return read({VERSION_OPTION: str(version.number)})


def filtered(df: DataFrame, predicate: str | None, key: str) -> DataFrame:
    """Returns the rows that a SQL predicate selects; all without one.

    Raises:
        ConfigError: the predicate is wrong.
    """
    if predicate is None:
        return df
    with spark_errors(key):
        return df.where(predicate)


@contextmanager
def spark_errors(key: str) -> Iterator[None]:
    """Turns Spark's errors about a source into ours, with their first line.

    Raises:
        ConfigError, SourceNotFoundError, EmptySourceError, StorageError: see `open_dataframe`.
    """
    try:
        with quiet_query_logger():
            yield
    except PySparkException as error:
        reason = spark_message(error)
        raise _kind(reason)(f"{key}: {reason}") from error
    except Py4JError as error:
        reason = _java_line(error)
        if reason.startswith(_SPARKS_OWN):
            raise _kind(reason)(f"{key}: {reason.partition(': ')[2]}") from error
        raise StorageError(f"{key}: {reason}") from error  # a NameNode or a metastore that is away


def _kind(reason: str) -> type[SparkTFError]:
    kinds: list[tuple[tuple[str, ...], type[DataError]]] = [
        (_NOT_FOUND, SourceNotFoundError),
        (NO_FILES, EmptySourceError),
    ]
    return next((kind for signs, kind in kinds if any(sign in reason for sign in signs)), ConfigError)


def _java_line(error: Py4JError) -> str:
    java = getattr(error, "java_exception", None)
    line = line_of_error(error) if java is None else first_line_of(str(java.toString()), type(error).__name__)
    return line.partition(" SQLSTATE")[0]


def _handed(data: object, key: str | None) -> Data:
    if key is not None:
        raise ConfigError(f"data.{key} names a source, and train() was given another one: remove one of them")
    if not isinstance(data, (DataFrame, RDD)):
        raise ConfigError(f"train(data=...) must be a DataFrame or an RDD, not {_type_name(data)}")
    return _batch(data, "train(data=...)")


def _called(spark: SparkSession, config: JobConfig) -> Data:
    name = str(config.data.source)
    function = _function(name, config.code_folder)
    with UsersCode(f"data.source: {name}"):
        data = function(spark, dict(config.params))
    if not isinstance(data, (DataFrame, RDD)):
        raise ConfigError(f"data.source: {name} must return a DataFrame or an RDD, not {_type_name(data)}")
    return _batch(data, "data.source")


def _function(name: str, beside: Path | None) -> Callable[..., object]:
    module_name, _, function_name = name.partition(":")
    with UsersCode(f"data.source: {name}"):  # importing runs it
        try:
            module = load_module("data.source", module_name, beside)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
                raise ConfigError(
                    f"data.source: there is no module {module_name!r} (ship it with --py-files or submit.py_files)"
                ) from error
            raise
    function = getattr(module, function_name, None)
    if callable(function):
        return function  # type: ignore[no-any-return]
    known = sorted(name for name, value in vars(module).items() if inspect.isfunction(value))
    has = f" (it has: {', '.join(known)})" if known else ""
    raise ConfigError(f"data.source: module {module_name!r} has no function {function_name!r}{has}")


def _batch(data: Data, key: str) -> Data:
    if isinstance(data, DataFrame) and data.isStreaming:
        raise ConfigError(f"{key} is an endless stream, which has no epochs: give a DataFrame that is not a stream")
    return data


def _type_name(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
