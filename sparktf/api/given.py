"""The data or the configuration that a program hands over: taken where its meaning is clear, else refused in a line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.driver.spark.differences import frame_of_table
from sparktf.errors import BadValueError, ConfigError
from sparktf.told import line_of_error

HandedRows = DataFrame | RDD[Any]
"""The rows that Spark has, or makes of what is given."""

Settings = Mapping[str, Any]
"""Sections and settings of a configuration, by name."""

_YAML = {".yaml", ".yml"}


def is_rows(value: Any) -> bool:
    """Whether a value is a table of rows: Spark's, pandas', or Arrow's."""
    return isinstance(value, (DataFrame, RDD, pa.Table)) or _is_of_pandas(value)


def frame_of(spark: SparkSession, value: Any) -> HandedRows | None:
    """Returns rows as Spark has them; a missing value of pandas, such as NaN, is a null.

    Raises:
        BadValueError: a column of pandas or Arrow has no type of Spark's.
    """
    if value is None or isinstance(value, (DataFrame, RDD)):
        return value
    try:
        table = value if isinstance(value, pa.Table) else pa.Table.from_pandas(value, preserve_index=False)
        return frame_of_table(spark, _plain(table))
    except Exception as error:
        raise BadValueError(
            f"the {type(value).__name__} is no DataFrame of Spark's: {line_of_error(error)}: mend the column, or make "
            "the DataFrame by spark.createDataFrame"
        ) from error


def given_settings(called: str, value: Any) -> JobConfig | Settings:
    """Returns the configuration, or the settings, that a value is or names.

    Args:
        called: The function that was given it, for messages.

    Raises:
        ConfigError: it is none, or the file that it names is wrong.
    """
    if isinstance(value, (JobConfig, Mapping)):
        return value
    if isinstance(value, (str, Path)) and Path(value).suffix.lower() in _YAML:
        return load_config(value)
    raise ConfigError(f"{called} takes a configuration, or data, not {_in_words(value)}")


def data_section_of(called: str, value: Any) -> Settings | None:
    """Returns the section `data` where a mapping is one; None where a value is rows, or nothing.

    Raises:
        ConfigError: it is none of these.
    """
    if value is None or is_rows(value):
        return None
    if isinstance(value, Mapping) and value and set(value) <= set(DataConfig.model_fields):
        return value
    raise ConfigError(f"{called} takes a DataFrame of Spark's or pandas', or an RDD, as data, not {_in_words(value)}")


def _is_of_pandas(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas', without importing it."""
    kind = type(value)
    return any(cls.__name__ == "DataFrame" and cls.__module__.partition(".")[0] == "pandas" for cls in kind.__mro__)


def _plain(table: pa.Table) -> pa.Table:
    """Returns a table without dictionaries: pandas' categories, which Spark has no type for."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _in_words(value: Any) -> str:
    """Describes an argument that is neither a configuration nor data, and the remedy."""
    kind = type(value)
    said = f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"
    if isinstance(value, (str, Path)):
        return f"{said}: name a configuration file as *.yaml, and data files by path="
    if callable(value):
        return f"{said}: give a function as model="
    return f"{said}: make a DataFrame of it, by pandas or by spark.createDataFrame"
