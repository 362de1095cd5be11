"""TensorFlowOnSpark's DataFrames as TFRecord files, and their rows as Examples, without TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as t

from sparktf import tfrecords
from sparktf.errors import BadValueError
from sparktf.feed.formats.example_writer import example_messages
from sparktf.feed.formats.examples import FeatureValues, ListKind, read_example
from sparktf.feed.formats.record_types import record_type

_CHUNK_ROWS = 256
"""Few: their bytes have to go into one array of less than 2 GiB."""
_SQL = {ListKind.INT64: t.LongType(), ListKind.FLOAT: t.DoubleType()}
_DOUBLE = {"float": "double", "array<float>": "array<double>"}
loadedDF: dict[DataFrame, str] = {}
"""Loaded DataFrame -> its folder."""


def isLoadedDF(df: DataFrame) -> bool:
    """Whether a DataFrame is one that `loadTFRecords` returned."""
    return df in loadedDF


def saveAsTFRecords(df: DataFrame, output_dir: str) -> None:
    """Writes a DataFrame as TFRecord files, into a folder that is not there yet."""
    tfrecords.write(df, output_dir)


def loadTFRecords(sc: SparkContext, input_dir: str, binary_features: Sequence[str] = ()) -> DataFrame:
    """Returns TFRecord files as a DataFrame, whose columns are in the order of their names.

    Floats become doubles, as in TensorFlowOnSpark.

    Args:
        binary_features: Features that are bytes; others are text if they are UTF-8.
    """
    df = tfrecords.read(SparkSession(sc), input_dir)
    columns = []
    for name, kind in sorted(df.dtypes):
        wanted = "binary" if name in binary_features else _DOUBLE.get(kind, kind)
        columns.append(sql.col(f"`{name}`").cast(wanted).alias(name))
    found = df.select(*columns)
    loadedDF[found] = input_dir
    return found


def toTFExample(
    dtypes: Sequence[tuple[str, str]],
) -> Callable[[Iterable[Row]], Iterator[tuple[bytearray, None]]]:
    """Returns a function for `mapPartitions` that makes an Example of each row, as `saveAsNewAPIHadoopFile` takes them.

    The Example lacks the feature of a null.

    Args:
        dtypes: Of the DataFrame: its `dtypes`.

    Raises:
        BadValueError: a column is of a type that no feature has.
    """
    kinds = {name: _arrow_type(name, dtype) for name, dtype in dtypes}

    def examples(rows: Iterable[Row]) -> Iterator[tuple[bytearray, None]]:
        left = iter(rows)
        while chunk := list(itertools.islice(left, _CHUNK_ROWS)):
            columns = [pa.array([row[name] for row in chunk], kind) for name, kind in kinds.items()]
            batch = pa.RecordBatch.from_arrays(columns, list(kinds))
            yield from ((bytearray(message.as_buffer()), None) for message in example_messages(batch))

    return examples


def fromTFExample(iter: Iterable[tuple[bytes | bytearray, Any]], binary_features: Sequence[str] = ()) -> list[Row]:
    """Returns the rows of Examples, columns in the order of their names: a function for `mapPartitions`.

    A feature of one value becomes that value, of several a list, of none None.

    Args:
        iter: Pairs of an Example and anything, as `newAPIHadoopFile` gives them.
        binary_features: Features that are bytes; others are text if they are UTF-8.
    """
    rows = []
    for record, *_ in iter:
        features = sorted(read_example(bytes(record)).items())
        rows.append(Row(**{name: _plain(values, name in binary_features) for name, values in features}))
    return rows


def infer_schema(example: Any, binary_features: Sequence[str] = ()) -> t.StructType:
    """Returns the schema of the rows that `fromTFExample` makes of Examples such as this one.

    Args:
        example: A `tf.train.Example`, or its bytes.
        binary_features: Features that are bytes; others are text.
    """
    record = example.SerializeToString() if hasattr(example, "SerializeToString") else bytes(example)
    features = sorted(read_example(record).items())
    return t.StructType([t.StructField(name, _sql_type(values, name in binary_features)) for name, values in features])


def _arrow_type(name: str, dtype: str) -> pa.DataType:
    try:
        return record_type(dtype.replace("long", "bigint"))  # which theirs takes as well
    except KeyError:
        raise BadValueError(f"column {name!r} is of type {dtype}, which cannot become a feature: cast it") from None


def _plain(values: FeatureValues, is_binary: bool) -> Any:
    kind, found = values
    if kind is ListKind.BYTES:
        found = [bytearray(value) if is_binary else value.decode() for value in found]
    if len(found) > 1:
        return found
    return found[0] if found else None


def _sql_type(values: FeatureValues, is_binary: bool) -> t.DataType:
    kind, found = values
    one = _SQL.get(kind) or (t.BinaryType() if is_binary else t.StringType())
    return t.ArrayType(one) if len(found) > 1 else one
