"""The dated scoring job: `jobs/predict.py`."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as t

from sparktf.config.job import JobConfig
from sparktf.config.predict_section import PredictConfig, PredictOutputConfig
from sparktf.driver.plan.kept_apart import check_apart, check_predictions, spot_of
from sparktf.driver.source.choice import check_path
from sparktf.driver.source.dataframe import filtered, open_dataframe, spark_errors
from sparktf.driver.source.stored_frame import is_for_tasks
from sparktf.driver.source.written_frame import write_parquet_frame
from sparktf.driver.spark.application import file_systems_of
from sparktf.driver.spark.driver_tokens import kept_fresh
from sparktf.driver.spark.feeders import explained
from sparktf.driver.spark.jvm import ddl_of
from sparktf.driver.spark.jvm_plans import input_files, root_paths
from sparktf.errors import ColumnError, ConfigError
from sparktf.nightly.foreknowledge import date_of, knows_later
from sparktf.predict.exported_model import find_model, located_model
from sparktf.predict.loaded import LoadedModel, quoted
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.partition import DayFolder, Marker, Partition

_ONE_PARTITION = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "hive.exec.dynamic.partition.mode": "nonstrict",
}
"""Makes `insertInto` replace only the partitions that it has rows for, after they are written."""

_SOURCE_KEYS = ("path", "format", "options", "table", "version", "timestamp", "sql", "where")


class Scored(NamedTuple):
    """The outcome of a scoring job."""

    rows: int
    version: str  # Number of the model's version, else `run:<id>` or its path
    place: str  # Folder or table of the predictions
    seconds: float
    warning: str = ""  # A caveat about the model

    def in_words(self) -> str:
        """Returns one line for people."""
        rate = self.rows / max(self.seconds, 1e-9)
        said = f"scored {self.rows:,} rows with model {self.version} in {self.seconds:.1f} s ({rate:,.0f} rows/s)"
        return f"{said}: {self.place}"


def score(spark: SparkSession, config: JobConfig, model: str | None = None) -> Scored:
    """Scores the rows of a day, and replaces the partition of its predictions.

    Args:
        model: Replaces `predict.model`.

    Raises:
        SparkTFError: it failed; readers still see the old predictions.
    """
    file_systems = file_systems_of(spark)
    with kept_fresh(file_systems.credentials):
        return _score(spark, config, model, file_systems)


def _score(spark: SparkSession, config: JobConfig, model: str | None, file_systems: FileSystems) -> Scored:
    asked, date = config.predicted()
    began_s = time.monotonic()
    if model is not None:
        config = config.model_copy(update={"predict": asked.model_copy(update={"model": model})})
        asked, _ = config.predicted()
    check_predictions(config, file_systems)
    path, version = located_model(config, asked.model, str(date), file_systems)
    found = find_model(file_systems.open_runs(path), path)
    label = f"version {version}" if version.isdecimal() else version
    of = date_of(file_systems.open_runs(path), found.folder)
    warning = knows_later(f"the rows of {date} are scored with", label, of, str(date))
    loaded = LoadedModel(spark, found)
    source = _source(spark, config, asked, file_systems)
    _check_apart(spark, source, asked.output, file_systems)
    rows = loaded.transform(
        source,
        asked.columns,
        keep=asked.keep,
        batch_rows=asked.batch_rows,
        max_bad_rows=asked.max_bad_rows,
    )
    _check_new(rows, asked)
    counted = Observation()
    rows = rows.withColumn(asked.version_column, sql.lit(version)).observe(counted, sql.count(sql.lit(1)).alias("rows"))
    marker = Marker(name=config.name, version=version, job=str(spark.sparkContext.applicationId))
    place = _write(spark, rows, asked, date, marker, file_systems)
    count = int(counted.get["rows"])
    if not count and asked.output.table is not None:  # Spark overwrites partitions that it has rows for, and no other
        _drop_day(spark, asked.output.table, asked.output.partition, date)
    return Scored(count, version, place, time.monotonic() - began_s, warning)


def _source(spark: SparkSession, config: JobConfig, asked: PredictConfig, file_systems: FileSystems) -> DataFrame:
    given = asked.source
    if given is not None:
        if given.is_plain_files:
            check_path(str(given.path), file_systems, "predict.source.path")
        update = {key: getattr(given, key) for key in _SOURCE_KEYS}
        data = config.data.model_copy(update={**update, "source": None})
        config = config.model_copy(update={"data": data})
    df = open_dataframe(spark, config, section="data" if given is None else "predict.source").data
    if isinstance(df, RDD):
        raise ConfigError("data.source returns an RDD, and predict scores DataFrames: give predict.source")
    return filtered(df, config.data.where, "data.where" if given is None else "predict.source.where")


def _check_new(rows: DataFrame, asked: PredictConfig) -> None:
    for key, name in (("version_column", asked.version_column), ("output.partition", asked.output.partition)):
        if name in rows.columns:
            raise ColumnError(
                f"predict.{key}: the rows have a column {name!r} already: leave it out of predict.keep, "
                "or choose another name"
            )


def _check_apart(spark: SparkSession, rows: DataFrame, output: PredictOutputConfig, file_systems: FileSystems) -> None:
    if output.path is not None:
        _check_rows_apart(rows, output.path, "predict.output.path", file_systems)
        return
    table = str(output.table)
    with spark_errors("predict.output.table"):
        location = _table_folder(spark, table) if spark.catalog.tableExists(table) else ""
    if location:
        _check_rows_apart(rows, location, f"predict.output.table {table}", file_systems)


def _write(
    spark: SparkSession,
    rows: DataFrame,
    asked: PredictConfig,
    date: dt.date,
    marker: Marker,
    file_systems: FileSystems,
) -> str:
    output = asked.output
    if output.table is not None:
        _write_table(spark, rows, output.table, output.partition, date)
        return f"{output.table}, {output.partition}={date}"
    path = file_systems.normalise(str(output.path))
    place, storage = DayFolder(path, output.partition, str(date)), file_systems.open(path)
    partition = Partition(storage, place, replaces_any=asked.overwrite == "any")

    def write(folder: str) -> None:
        if is_for_tasks(spark, path):
            write_parquet_frame(rows, storage, folder, "scoring")
        else:
            _run(lambda: rows.write.parquet(folder))

    partition.replace(write, marker, time.time())
    return partition.folder


def _write_table(spark: SparkSession, rows: DataFrame, table: str, column: str, date: dt.date) -> None:
    same = _spelling(spark)
    with spark_errors("predict.output.table"):
        if not spark.catalog.tableExists(table):
            _make_table(spark, rows, table, column)
        by = [found.name for found in spark.catalog.listColumns(table) if found.isPartition]
        schema = spark.table(table).schema
    # Overwriting any other table would delete the rows of other days.
    if [same(name) for name in by] != [same(column)]:
        how = ", ".join(by) or "nothing"
        raise ColumnError(
            f"predict.output: table {table} is partitioned by {how}, not by {column!r} alone, so no day can be "
            "replaced: name another table, or its column in predict.output.partition"
        )
    dated = rows.withColumn(column, sql.lit(str(date)).cast(schema[by[0]].dataType))
    found = {same(name): name for name in dated.columns}
    if odd := sorted({same(name) for name in schema.names}.symmetric_difference(found)):
        raise ColumnError(f"predict.output: table {table} and the predictions differ in columns: {', '.join(odd)}")
    ordered = [dated[quoted(found[same(name)])] for name in schema.names]
    writer = dated.select(*ordered).write.mode("overwrite")
    with _set(spark, _ONE_PARTITION):
        _run(lambda: writer.insertInto(table))


def _make_table(spark: SparkSession, rows: DataFrame, table: str, column: str) -> None:
    """Makes an empty table.

    If it were made with its first rows, their files would come first, and a job killed in between would leave files
    where no table can be made.
    """
    fields = [t.StructField(field.name, field.dataType) for field in rows.schema]
    schema = t.StructType([*fields, t.StructField(column, t.DateType())])
    if any(isinstance(field.dataType, t.UserDefinedType) for field in fields):  # SQL has no name for it
        spark.createDataFrame([], schema).write.partitionBy(column).format("parquet").saveAsTable(table)
    else:
        by = quoted(column)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({ddl_of(schema)}) USING parquet PARTITIONED BY ({by})")


def _spelling(spark: SparkSession) -> Callable[[str], str]:
    """Returns the form by which Spark compares names: Hive's tables are in lower case."""
    is_sensitive = str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    return str if is_sensitive else str.lower


def _drop_day(spark: SparkSession, table: str, column: str, date: dt.date) -> None:
    with spark_errors("predict.output.table"):
        spark.sql(f"ALTER TABLE {table} DROP IF EXISTS PARTITION ({quoted(column)} = '{date}')")


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets a session's settings for the duration of a block."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _run(action: Callable[[], None]) -> None:
    """Runs a Spark job. Raises our error if one ended it, else the meaning of Spark's failure."""
    try:
        action()
    except (PySparkException, Py4JError) as error:
        raise explained(error, "scoring") from error


def _check_rows_apart(rows: DataFrame, output: str, key: str, file_systems: FileSystems) -> None:
    """Refuses an output folder at, above or below a folder that a DataFrame reads, by whatever name.

    Args:
        output: The folder.
        key: Configuration key of the folder or of its table, for messages.

    Raises:
        ConfigError: the folders overlap, or the path is invalid.
        StorageError: the file system failed.
    """
    for folder in dict.fromkeys(root_paths(rows)):  # later files below them are read too
        check_apart(output, f"what is scored, {folder}", spot_of(folder, file_systems), file_systems, key)
    mine = spot_of(output, file_systems)
    for folder in _folders_of_files(rows):
        if mine.holds(spot_of(folder, file_systems)):  # a folder may lie beside a single file that is read
            raise ConfigError(f"{key}: {output} overlaps with {folder}, where the rows are: give another folder")


def _table_folder(spark: SparkSession, table: str) -> str:
    """Returns the folder of a table; "" if it has none. Raises `SourceNotFoundError` without such a table."""
    with spark_errors("predict.output.table"):
        found = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    return next((str(row.data_type) for row in found if row.col_name == "Location"), "")


def _folders_of_files(rows: DataFrame) -> set[str]:
    with spark_errors("predict.source"):
        return {unquote(file).rpartition("/")[0] for file in input_files(rows)}
