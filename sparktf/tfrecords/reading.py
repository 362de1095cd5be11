"""Reads TFRecord files as a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparktf.driver.source.dataframe import spark_errors
from sparktf.driver.source.record_frame import SAMPLE, read_record_frame
from sparktf.driver.spark.differences import type_of_ddl
from sparktf.errors import ConfigError
from sparktf.feed.formats.record_types import record_type


def read(spark: SparkSession, path: str, schema: str | StructType | None = None, *, sample: int = SAMPLE) -> DataFrame:
    """Returns tensorflow.Example messages as rows, with a column for each feature and each partition folder.

    A feature that a record lacks is null. Checksums are checked; compression is recognised by content.

    Args:
        path: A folder, of which hive-style partition folders are columns, or one file.
        schema: The columns, as DDL (`"id bigint, x array<float>"`) or a StructType: Int64List becomes any integer or
            boolean, FloatList float or double, BytesList string or binary, each as it is or in an array. Default:
            inferred from the first records: a feature of one value at most is no array, bytes that are UTF-8 are text.
        sample: The number of these records.

    Raises:
        ConfigError: a column's type is none that a feature can become.
        SourceNotFoundError: nothing is at the path.
        EmptySourceError: no file is below it.
        DataError: a file is no TFRecord file, or a feature has values of several kinds. Later records raise it in
            Spark's job, with file, column and row.
        StorageError: the storage failed.
    """
    return read_record_frame(spark, path, None if schema is None else _types(schema), sample)


def _types(schema: str | StructType) -> dict[str, str]:
    with spark_errors("schema"):
        fields = _struct(schema).fields
    types = {field.name: field.dataType.simpleString() for field in fields}
    for name, kind in types.items():
        try:
            record_type(kind)
        except KeyError:
            raise ConfigError(f"schema: column {name!r} has type {kind}, which no feature can become") from None
    return types


def _struct(schema: str | StructType) -> StructType:
    found = type_of_ddl(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType):
        raise ConfigError(f"schema: {schema!r} is not a list of columns: write it as 'id bigint, x array<float>'")
    return found
