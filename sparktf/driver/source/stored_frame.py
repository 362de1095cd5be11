"""A lake of Parquet files as a DataFrame where Spark has no client for its store: tasks read them as trainers do.

Spark's own reader is better where it can read: it reads the columns that are asked for alone, and chooses row groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparktf.driver.plan.files import Source, doubled, list_source, read_row_groups
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.old_calendar import check_calendar
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.driver.source.footer_types import type_in_footer, types_are_default
from sparktf.driver.source.lake import PlannedFiles
from sparktf.driver.source.partition_filter import filter_partitions
from sparktf.driver.source.scan import spark_reads
from sparktf.driver.spark.application import file_systems_of, task_access
from sparktf.driver.spark.differences import schema_as_arrow, type_of_ddl
from sparktf.driver.spark.jvm import has_client
from sparktf.errors import BadValueError, ColumnError, ConfigError
from sparktf.executor.stored_rows import FilePiece, StoredFiles, stored_rows
from sparktf.feed.formats.parquet_file import open_file
from sparktf.hadoop import OBJECT_SCHEMES
from sparktf.sequence import FileStamp
from sparktf.storage.base import Storage

_TASK_NBYTES = 64 << 20
"""Bytes as they lie in files that a task reads."""


def is_for_tasks(spark: SparkSession, path: str) -> bool:
    """Whether a path is in a store that tasks can read or write, and Spark cannot: it has no client for it."""
    return path.partition("://")[0].lower() in OBJECT_SCHEMES and not has_client(spark, path)


def read_stored_frame(spark: SparkSession, path: str, where: str | None, planned: PlannedFiles | None) -> DataFrame:
    """Returns the rows of all files at `data.path`, or of a plan's, with a column for each partition folder.

    Args:
        where: A predicate that will be applied to the rows: files of which it selects none are left out where it looks
            at partition columns alone.
        planned: The files of the run's plan; None for all.

    Raises:
        ConfigError: only Spark's own reader can read them: Hadoop's connector has to be there.
        SourceNotFoundError: nothing is at the path.
        EmptySourceError: no file is below it.
        DataError: a file is damaged, or its columns are not those of the others.
        StorageError: the storage failed.
    """
    file_systems = file_systems_of(spark)
    path = file_systems.normalise(path)
    storage, reads = file_systems.open(path), spark_reads(spark)
    with _connector_wanted("data.path", path):
        source = list_source(storage, path, "data.path", reads)
        columns, types = _columns(spark, storage, source, planned, reads)
        return _frame(spark, storage, _chosen(spark, source, where, planned), columns, types)


def stored_table_frame(
    spark: SparkSession, files: tuple[str, ...], columns: StructType, partitions: Partitions
) -> DataFrame:
    """Returns the rows of the files of a table whose log tells its columns.

    Args:
        columns: Without the partition columns; a file may lack some.
        partitions: With the values of each file.

    Raises: as `read_stored_frame`.
    """
    with _connector_wanted("data.path", files[0]):
        source, types = Source("data.path", files[0], files, partitions), dict.fromkeys(columns.names)
        return _frame(spark, file_systems_of(spark).open(files[0]), source, columns, types)


@contextmanager
def _connector_wanted(key: str, path: str) -> Iterator[None]:
    try:
        yield
    except NotPlainError as error:
        raise ConfigError(
            f"{key}: Spark has no client for {path}, and sparktf's tasks cannot read it as Spark would: {error}: give "
            "Spark Hadoop's connector (hadoop-aws, hadoop-azure, Google's) by spark.jars"
        ) from error


def _frame(
    spark: SparkSession, storage: Storage, source: Source, columns: StructType, types: Mapping[str, pa.DataType | None]
) -> DataFrame:
    pieces = tuple(_pieces(storage, source, types, spark_reads(spark))) if source.files else ()
    partitions = dict(zip(source.partitions.names, source.partitions.types, strict=True))
    schema = StructType(list(columns))
    for name, kind in partitions.items():
        schema = schema.add(name, type_of_ddl(kind))
    if not pieces:
        return spark.createDataFrame([], schema)
    settings = StoredFiles(pieces, schema_as_arrow(spark, schema), partitions, task_access(spark))

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return stored_rows(numbers, settings)

    return spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(read, schema)


def _columns(
    spark: SparkSession, storage: Storage, source: Source, planned: PlannedFiles | None, reads: SparkReads
) -> tuple[StructType, dict[str, pa.DataType]]:
    """Returns the columns of the files: those of the first, as Spark takes them, or of a plan's newest; and their types
    in Arrow.
    """
    if not types_are_default(spark):
        raise NotPlainError("settings of Spark (spark.sql.parquet.*) change the types of its columns")
    path = source.files[0] if planned is None else planned.newest
    with open_file(storage, path).parquet() as file:
        metadata, found = file.metadata, file.schema_arrow
    partitions = {reads.same(name) for name in source.partitions.names}
    schema, types = StructType(), dict[str, pa.DataType]()
    known = {} if planned is None else {name: type_of_ddl(kind) for name, kind in planned.types.items()}
    for field in found:
        if reads.same(field.name) in partitions:
            continue
        kind = known.get(field.name) or type_in_footer(metadata, field.name)
        if kind is None:
            raise NotPlainError(f"column {field.name!r} of {path} is of a type that Spark alone knows how to take")
        schema, types[field.name] = schema.add(field.name, kind), field.type
    return schema, types


def _chosen(spark: SparkSession, source: Source, where: str | None, planned: PlannedFiles | None) -> Source:
    if planned is not None:
        wanted = frozenset(planned.paths[: planned.most])
        source = source.select([file in wanted for file in source.files])
    if where is not None and source.partitions.names:
        with suppress(ConfigError):  # it looks at other columns, too
            names, types, values = source.partitions.names, source.partitions.types, source.partitions.values
            source = source.select(filter_partitions(spark, names, types, values, where))
    return source


def _pieces(
    storage: Storage, source: Source, types: Mapping[str, pa.DataType | None], reads: SparkReads
) -> Iterator[FilePiece]:
    groups, stamps = read_row_groups(storage, source, frozenset(types), partial(_check, types, reads))
    # A piece ends with its file, and where it would be too large.
    room = np.cumsum(groups.nbytes) // _TASK_NBYTES
    whole = zip(groups.file.tolist(), groups.row_group.tolist(), room.tolist(), strict=True)
    for (file, _), part in itertools.groupby(whole, lambda group: (group[0], group[2])):
        stamp, values = FileStamp(*stamps[file].tolist()), source.partitions.values[file]
        yield FilePiece(source.files[file], tuple(number for _, number, _ in part), stamp, values)


def _check(
    types: Mapping[str, pa.DataType | None], reads: SparkReads, path: str, schema: pa.Schema, metadata: pq.FileMetaData
) -> None:
    """Checks that the columns of a file are those of the others; it may lack some. Bind the first two arguments.

    Args:
        types: Column -> its type in Arrow; None for any, where a log tells what becomes of it.

    Raises:
        ColumnError: it has one twice, or in another case.
        BadValueError: one is of another type.
        NotPlainError: Spark converts dates or timestamps of the file.
    """
    if twice := doubled(schema, types, reads):
        raise ColumnError(f"{path} has {twice}")
    there = {reads.same(field.name): field for field in schema}
    for name, wanted in types.items():
        field = there.get(reads.same(name))
        if field is None:
            continue
        if field.name != name:
            raise ColumnError(f"{path} has a column {field.name!r}, and other files have {name!r}")
        if wanted not in (None, field.type) and not pt.is_null(field.type):
            raise BadValueError(f"{path}: column {name!r} is of type {field.type}, but {wanted} in other files")
    check_calendar(path, metadata, frozenset(types), reads)
