"""Spark's types of a lake's columns, derived from a footer: Spark itself would have to start its SQL engine, and a job.

An allowlist: a type is given only if Spark is sure to choose the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_type

from sparktf.driver.plan.plan import Plan
from sparktf.driver.spark.differences import type_of_ddl
from sparktf.feed.arrays.nested import type_of
from sparktf.feed.formats.parquet import file_columns
from sparktf.feed.formats.parquet_file import leaf_columns, open_file
from sparktf.storage.file_systems import FileSystems

_SPARKS_OWN = b"org.apache.spark.sql.parquet.row.metadata"
_PLAIN = {"NONE", "INT", "STRING", "DECIMAL", "DATE", "TIMESTAMP", "LIST"}
"""Logical types that Spark and Arrow take for the same."""

_INT96 = "INT96"
_DEFAULTS = {
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.mergeSchema": "false",
}
_PARTITIONS: dict[str, t.DataType] = {
    "int": t.IntegerType(),
    "bigint": t.LongType(),
    "double": t.DoubleType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "string": t.StringType(),
}


def footer_types(
    spark: SparkSession, file_systems: FileSystems, plan: Plan, names: Sequence[str]
) -> dict[str, t.DataType] | None:
    """Returns the types of columns of the Parquet files of a plan; None where Spark has to be asked.

    Raises:
        CorruptFileError: the first file is damaged.
        StorageError: the storage failed.
    """
    if not plan.files or not types_are_default(spark):
        return None
    partitions = dict(zip(plan.spec.partition_columns, plan.spec.partition_types, strict=True))
    file = open_file(file_systems.open(plan.files[0]), plan.files[0])
    file.close()
    in_file, found = file_columns(plan.spec), dict[str, t.DataType]()
    for name in names:
        if name in plan.spec.untyped:  # the first file may have no value of it
            found[name] = type_of_ddl(plan.spec.untyped[name])
            continue
        kind = _PARTITIONS.get(partitions[name]) if name in partitions else type_in_footer(file.metadata, in_file[name])
        if kind is None:
            return None
        found[name] = kind
    return found


def types_are_default(spark: SparkSession) -> bool:
    """Whether the session takes the types of Parquet files as Spark does by default."""
    return all(spark.conf.get(key, default) == default for key, default in _DEFAULTS.items())


def type_in_footer(metadata: pq.FileMetaData, name: str) -> t.DataType | None:
    """Returns Spark's type of a column of a file; None where Spark has to be asked."""
    written = (metadata.metadata or {}).get(_SPARKS_OWN)
    if written is not None:
        fields = {field.name: field.dataType for field in t.StructType.fromJson(json.loads(written)).fields}
        return fields.get(name)  # a field of a struct is Spark's to find
    leaves = [metadata.schema.column(leaf) for leaf in leaf_columns(metadata, frozenset([name]))]
    if any(leaf.logical_type.type not in _PLAIN or leaf.physical_type == _INT96 for leaf in leaves):
        return None
    schema = metadata.schema.to_arrow_schema()
    kind = type_of(dict(zip(schema.names, schema.types, strict=True)), name)
    if kind is None:
        return None
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except PySparkException:
        return None
