"""Decides who reads the data: the trainers themselves, or Spark for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.driver.plan.locality import Locate
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planned_formats import planned_format_of
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.plan.record_plan import index_here
from sparktf.driver.plan.tables import check_no_table
from sparktf.driver.source.dataframe import filtered
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.partition_filter import filter_partitions
from sparktf.driver.source.scan import plain_scan, spark_reads
from sparktf.driver.source.spark_formats import index_with
from sparktf.driver.source.table_logs import needs_connector
from sparktf.driver.source.table_version import UNORDERED
from sparktf.errors import ConfigError, SourceNotFoundError, StorageNotFoundError
from sparktf.storage.file_systems import FileSystems


def choose_feed(
    spark: SparkSession,
    config: JobConfig,
    origin: Origin,
    file_systems: FileSystems,
    locate: Locate,
    say: Callable[[str], None],
    *,
    has_slots: bool = False,
) -> Plan:
    """Plans the input of a run, and reports who reads it and why.

    Args:
        origin: Opened only if needed.
        say: Takes one line of progress.
        has_slots: Spark tasks may look through files that have no footers.

    Raises:
        ConfigError: `data.mode` or `cluster.evaluator` cannot be satisfied; also as `open_dataframe` and `plan_source`.
        SourceNotFoundError: files are gone since Spark listed them.
    """
    mode = config.data.mode
    is_files = config.data.names_files and not origin.is_given
    is_lake = is_files and is_read_directly(config.data)
    plan = partial(plan_source, config, file_systems.open, partial(filter_partitions, spark), locate)
    if is_lake and mode != "spark":
        index = index_with(spark, config.data) if has_slots else index_here

        def planned_lake() -> Plan:
            check_opens(config, file_systems)
            return plan(reads=spark_reads(spark), index=index)

        return _lake(config, origin, planned_lake, say)
    if is_files:
        check_path(str(config.data.path), file_systems, "data.path")
    if mode == "spark":
        return _through_spark(config, origin, "data.mode: spark asks for it", say)
    log = origin.log
    try:
        chooses = config.data.where or (config.data.validation is not None and config.data.validation.where)
        scan = _scan(config, origin, file_systems) if log is None or chooses else log.scan()
        planned = plan(scan=scan)
    except NotPlainError as error:
        if log is not None:
            raise needs_connector(f"{_name(config)} {config.data.path}", log.version.kind, str(error)) from error
        if mode == "direct":
            raise ConfigError(f"data.mode: direct needs a plain scan of Parquet files, but {error}") from error
        return _through_spark(config, origin, str(error), say)
    except StorageNotFoundError as error:  # a session that has listed the files long ago
        raise SourceNotFoundError(f"{_name(config)}: {error}: refresh it (spark.catalog.refreshTable)") from error
    version = origin.version
    of = f" of {version.kind}" if version is not None else ""
    say(f"data: read directly by the trainers, a plain scan of {len(scan.files):,} Parquet files{of}")
    return planned if version is None else replace(planned, source_version=version.number)


def check_opens(config: JobConfig, file_systems: FileSystems) -> None:
    """Leaves files to Spark whose file system trainers have no client for, or cannot read as its connector does.

    Raises:
        NotPlainError: they cannot.
    """
    held_out = config.data.validation.path if config.data.validation is not None else None
    for path in filter(None, (config.data.path, held_out)):
        if reason := file_systems.only_hadoops(path):
            raise NotPlainError(f"trainers cannot read {path}: {reason}")


def is_read_directly(data: DataConfig) -> bool:
    """Whether trainers may read `data.path` without Spark's help: not if Spark's reader has options."""
    return data.names_files and not data.options


def _lake(config: JobConfig, origin: Origin, plan: Callable[[], Plan], say: Callable[[str], None]) -> Plan:
    try:
        planned = plan()
    except NotPlainError as error:
        check_lake_may_be_fed(config, error)
        return _through_spark(config, origin, str(error), say)
    form = planned_format_of(planned.spec)
    types = form.told(config.data, planned.spec)
    say(f"data: read directly by the trainers, all {form.format.title} files at data.path{types}")
    origin.follow(planned)
    return planned


def check_path(path: str, file_systems: FileSystems, key: str) -> None:
    """Refuses a table of another format that Spark would read as plain files, too.

    Args:
        key: The configuration key of the path.

    Raises:
        ConfigError: it is one.
    """
    try:
        storage = file_systems.open(path)
    except ConfigError:
        return  # of a file system that Spark alone reads
    # Spark reports missing paths, and resolves patterns.
    with suppress(StorageNotFoundError):
        check_no_table(storage, path, key)


def _through_spark(config: JobConfig, origin: Origin, reason: str, say: Callable[[str], None]) -> Plan:
    """Plans data that Spark reads and feeds to the trainers. Raises as `check_may_be_fed`."""
    check_may_be_fed(config, reason)
    plan = origin.fed.plan(config)
    say(f"data: read through Spark, {reason}")
    version = origin.version
    if version is None:
        return plan
    if origin.is_unordered:
        say(f"data: {UNORDERED}")
    return replace(plan, source_version=version.number)


def check_lake_may_be_fed(config: JobConfig, error: NotPlainError) -> None:
    """Refuses files that only Spark can read where they may not be read through it.

    Raises:
        ConfigError: `data.mode` is direct, or `data.validation.path` is set; also as `check_may_be_fed`.
    """
    if config.data.mode == "direct":
        raise ConfigError(f"data.mode: direct cannot read data.path as Spark does: {error}") from error
    if config.data.validation is not None and config.data.validation.path is not None:
        raise ConfigError(
            f"data.validation.path needs files that trainers read themselves, but {error}: use data.validation.where "
            "or fraction, or rewrite the files"
        ) from error
    check_may_be_fed(config, str(error))


def check_may_be_fed(config: JobConfig, reason: str) -> None:
    """Refuses a source that only Spark can read where a node has to read it itself.

    Args:
        reason: Why it is read through Spark.

    Raises:
        ConfigError: an evaluator has to, or workers that make updates together.
    """
    if config.train.replicas_to_aggregate is not None:
        raise ConfigError(
            f"train.replicas_to_aggregate needs rows that workers read from files themselves, but {_name(config)} is "
            f"read through Spark, {reason}: write the rows as Parquet files and set data.path to them, or remove "
            "train.replicas_to_aggregate"
        )
    if not config.cluster.may_be_fed:
        raise ConfigError(
            f"cluster.evaluator needs Parquet files that the evaluator reads itself, but {_name(config)} is read "
            f"through Spark, {reason}: write the rows as Parquet files and set data.path to them, or set "
            "cluster.evaluator: false"
        )


def _name(config: JobConfig) -> str:
    return "train(data=...)" if config.data.source_key is None else f"data.{config.data.source_key}"


def _scan(config: JobConfig, origin: Origin, file_systems: FileSystems) -> ParquetScan:
    """Returns the data's scan, with paths as every process understands them.

    Raises:
        NotPlainError: it is none, or trainers cannot read its files.
        ConfigError: a predicate is wrong.
    """
    data = origin.data
    if not isinstance(data, DataFrame):
        raise NotPlainError("the source is an RDD")
    df = filtered(data, config.data.where, "data.where")
    scan = plain_scan(df)
    if origin.log is not None:
        scan = replace(scan, field_ids=origin.log.field_ids)
    if config.data.validation is not None and config.data.validation.where is not None:
        if scan.field_ids is not None:
            raise NotPlainError("data.validation.where looks at columns in the files, as all of an Iceberg table are")
        # The planner divides files by their partitions: a predicate over columns in the files is more than that.
        held_out = plain_scan(filtered(df, config.data.validation.where, "data.validation.where"))
        if set(held_out.where) != set(scan.where):
            raise NotPlainError("data.validation.where looks at columns in the files")
    files = tuple(_normalised(file, file_systems) for file in scan.files)
    if len({_file_system(file) for file in files}) > 1:
        raise NotPlainError("the files lie in several file systems")
    return replace(scan, files=files)


def _normalised(path: str, file_systems: FileSystems) -> str:
    try:
        file_systems.open(path)
    except ConfigError as error:
        raise NotPlainError(f"trainers cannot read the files: {error}") from error
    return file_systems.normalise(path)


def _file_system(path: str) -> str:
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""
