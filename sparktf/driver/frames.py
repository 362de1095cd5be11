"""The DataFrames of a run: what of the user's each stream is fed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from sparktf.config import DataConfig, JobConfig
from sparktf.driver.columns import Schema, resolve_features
from sparktf.driver.stored_plan import Plan
from sparktf.errors import ConfigError
from sparktf.feature import FeedSpec
from sparktf.plan import Stream

_HASH_RANGE = 1 << 31


def plan_frames(config: JobConfig, data: DataFrame) -> Plan:
    """Plans a run whose streams Spark feeds: which tensors there are. How many rows, nobody knows beforehand.

    Raises:
        ConfigError: a dtype, shape or fill value does not fit the DataFrame.
        ColumnError: a column is not in it.
        BadValueError: a column's type cannot become the tensor.
    """
    schema = Schema(_types(data), lambda column: None)
    held_out = config.data.validation is not None
    return Plan(
        spec=FeedSpec(
            features=resolve_features(config.data, schema),
            fill_null=config.data.fill_null,
            shuffle=config.data.shuffle,
            seed=config.train.seed,
            prefetch_bytes=config.data.prefetch_mib << 20,
        ),
        plan_hash=config.plan_hash(),
        files=(),
        partition_values=(),
        tables={},
        staged=(Stream.TRAIN, Stream.VALIDATION) if held_out else (Stream.TRAIN,),
    )


def frames_of(config: JobConfig, data: DataFrame, spec: FeedSpec) -> Mapping[Stream, DataFrame]:
    """Returns for each stream the rows and columns that are fed.

    Raises:
        ConfigError: a predicate does not fit the DataFrame.
    """
    frame = _where(data, config.data.where, "data.where")
    streams = {Stream.TRAIN: frame}
    held_out = _held_out(config.data, frame, config.train.seed)
    if held_out is not None:
        # A predicate that is null selects nothing, here too.
        known = sql.coalesce(held_out, sql.lit(False))
        streams = {Stream.TRAIN: frame.where(~known), Stream.VALIDATION: frame.where(known)}
    used = sorted({column for feature in spec.features for column in feature.columns})
    return {stream: part.select(*(part[_quoted(column)] for column in used)) for stream, part in streams.items()}


def _held_out(config: DataConfig, frame: DataFrame, seed: int) -> Column | None:
    """Returns what is true for rows of the validation stream; None where there is none."""
    validation = config.validation
    if validation is None:
        return None
    if validation.path is not None:
        raise ConfigError("data.validation.path goes with Parquet files; beside a DataFrame, use where or fraction")
    if validation.where is not None:
        _where(frame, validation.where, "data.validation.where")
        return sql.expr(validation.where)
    # Drawn by the row's content, so that a row is on the same side in every epoch, whatever order Spark computes it in,
    # and no row that training sees is in validation too.
    drawn = sql.pmod(
        sql.xxhash64(sql.lit(seed), *(frame[_quoted(name)] for name in frame.columns)), sql.lit(_HASH_RANGE)
    )
    return drawn < int((validation.fraction or 0.0) * _HASH_RANGE)


def _where(frame: DataFrame, predicate: str | None, key: str) -> DataFrame:
    if predicate is None:
        return frame
    try:
        return frame.where(predicate)
    except PySparkException as e:
        raise ConfigError(f"{key}: {str(e).splitlines()[0]}") from e


def _types(data: DataFrame) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in to_arrow_schema(data.schema)}


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
