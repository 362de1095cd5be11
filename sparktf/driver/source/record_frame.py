"""TFRecord files through Spark: as a DataFrame, and the positions of their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from sparktf.driver.plan.files import list_source
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.record_plan import GROUP_NBYTES, index_here, record_schema
from sparktf.driver.source.scan import spark_reads
from sparktf.driver.spark.application import file_systems_of, task_access
from sparktf.driver.spark.differences import type_of_ddl
from sparktf.driver.spark.feeders import explained
from sparktf.executor.record_rows import RecordFiles, index_records, record_rows
from sparktf.feed.formats.record_file import RecordGroup
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems

SAMPLE = 1000
"""Default number of records from which the types of features are inferred."""

_BY_SPARK_NBYTES = 256 << 20
"""Fewer bytes are read here before tasks would begin."""


def read_record_frame(
    spark: SparkSession, path: str, types: Mapping[str, str] | None = None, sample: int = SAMPLE, key: str = "path"
) -> DataFrame:
    """Returns the records of TFRecord files as rows, with a column for each feature and each partition folder.

    Args:
        path: A folder, of which hive-style partition folders are columns, or one file.
        types: Feature -> Spark's type of its column; other features are left out. Default: from the first records.
        sample: The number of records read for that.
        key: The name of the path in messages.

    Raises:
        SourceNotFoundError: nothing is at the path.
        EmptySourceError: no file is below it.
        DataError: a file is no TFRecord file, or a feature has values of several kinds.
        StorageError: the storage failed.
    """
    file_systems = file_systems_of(spark)
    path = file_systems.normalise(path)
    storage = file_systems.open(path)
    source = list_source(storage, path, key, spark_reads(spark))
    types, _ = record_schema(storage, source, types, sample)
    partitions = dict(zip(source.partitions.names, source.partitions.types, strict=True))
    settings = RecordFiles(
        files=source.files,
        types={name: kind for name, kind in types.items() if name not in partitions},
        partition_types=partitions,
        partition_values=source.partitions.values,
        access=task_access(spark),
    )
    schema = t.StructType()
    for name, kind in {**settings.types, **partitions}.items():
        schema = schema.add(name, type_of_ddl(kind))

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return record_rows(numbers, settings)

    count = len(source.files)
    return spark.range(0, count, 1, count).mapInArrow(read, schema)


def record_frame_types(
    spark: SparkSession, file_systems: FileSystems, plan: Plan, names: Sequence[str]
) -> dict[str, t.DataType]:
    """Returns the types of columns of a plan's TFRecord files, from the plan."""
    del spark, file_systems
    partitions = dict(zip(plan.spec.partition_columns, plan.spec.partition_types, strict=True))
    types = plan.spec.record_types
    return {name: type_of_ddl(partitions.get(name) or types[name]) for name in names}


def index_by_spark(
    spark: SparkSession, storage: Storage, paths: Sequence[str], nbytes: int
) -> Sequence[Sequence[RecordGroup]]:
    """An `IndexRecords` that has Spark tasks read the files, if that is worth a job.

    Raises:
        DataError: a file is no TFRecord file.
        NodeLostError: executors were lost, or the storage failed.
    """
    tasks = min(4 * spark.sparkContext.defaultParallelism, len(paths))
    if nbytes < _BY_SPARK_NBYTES or tasks < 2:
        return index_here(storage, paths, nbytes)
    access = task_access(spark)
    shares = [[str(path) for path in share] for share in np.array_split(np.array(paths, object), tasks)]

    def index(shares: Iterable[Sequence[str]]) -> Iterator[list[list[RecordGroup]]]:
        return (index_records(share, GROUP_NBYTES, access) for share in shares)

    try:
        found = spark.sparkContext.parallelize(shares, tasks).mapPartitions(index).collect()
    except (PySparkException, Py4JError) as error:
        raise explained(error, "looking for the records of TFRecord files") from error
    return [groups for share in found for groups in share]
