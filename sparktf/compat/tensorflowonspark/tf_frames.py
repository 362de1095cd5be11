"""TensorFlowOnSpark's DataFrames as TFRecord files."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from sparktf import tfrecords

_DOUBLE = {"float": "double", "array<float>": "array<double>"}
_loaded: dict[int, DataFrame] = {}
"""DataFrames that were loaded, by their ids."""


def isLoadedDF(df: DataFrame) -> bool:
    """Whether a DataFrame is one that `loadTFRecords` returned."""
    return id(df) in _loaded


def saveAsTFRecords(df: DataFrame, output_dir: str) -> None:
    """Writes a DataFrame as TFRecord files, into a folder that is not there yet."""
    tfrecords.write(df, output_dir)


def loadTFRecords(sc: SparkContext, input_dir: str, binary_features: Sequence[str] = ()) -> DataFrame:
    """Returns TFRecord files as a DataFrame, whose columns are in the order of their names.

    Floats are doubles, as theirs are.

    Args:
        binary_features: Those that are bytes; others that are UTF-8 are text.
    """
    df = tfrecords.read(SparkSession(sc), input_dir)
    columns = []
    for name, kind in sorted(df.dtypes):
        wanted = "binary" if name in binary_features else _DOUBLE.get(kind, kind)
        columns.append(sql.col(f"`{name}`").cast(wanted).alias(name))
    found = df.select(*columns)
    _loaded[id(found)] = found
    return found
