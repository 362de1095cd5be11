"""A trained model, and the DataFrames that it scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from sparktf.driver.plan.features import Schema, nearest
from sparktf.driver.source.origin import arrow_schema
from sparktf.driver.spark.application import file_systems_of, hadoop_conf, slots_of, task_access
from sparktf.errors import BadValueError, ColumnError, ConfigError, ModelContractError
from sparktf.executor.scored_rows import ScoringSettings, output_arrow_type, scored
from sparktf.feed.arrays.arrow_types import fits
from sparktf.feed.arrays.nested import path_of
from sparktf.predict.exported_model import ExportedModel, find_model
from sparktf.wire.exported import ModelFeed, ModelOutput
from sparktf.wire.scored_model import ScoredModel

PREDICTION = "prediction"
"""The column of a model's only output, named as in Spark's own models."""

BATCH_ROWS = 4096
SIGNATURE = "serving_default"

_SPARK: dict[pa.DataType, sql.DataType] = {
    pa.bool_(): sql.BooleanType(),
    pa.int8(): sql.ByteType(),
    pa.int16(): sql.ShortType(),
    pa.int32(): sql.IntegerType(),
    pa.int64(): sql.LongType(),
    pa.float32(): sql.FloatType(),
    pa.float64(): sql.DoubleType(),
    pa.string(): sql.StringType(),
}


class LoadedModel:
    """A model to score with. Its columns become tensors as they did in its training.

    Attributes:
        path: Its folder: that of a published version, or `model` of a run.
    """

    def __init__(
        self, spark: SparkSession, found: ExportedModel, signature: str = SIGNATURE, tags: Sequence[str] = ()
    ) -> None:
        self.path = found.folder
        self._signature = signature
        self._tags = tuple(tags)
        self._spark = spark
        self._found = found
        self._hadoop = hadoop_conf(spark).for_nodes()

    def __repr__(self) -> str:
        return f"LoadedModel({self.path})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs; "user.age" is a field of the struct "user"."""
        return tuple(dict.fromkeys(name for f in self._found.feed.spec.features for name in f.columns))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return tuple(output.name for output in self._found.feed.outputs)

    @property
    def feed(self) -> ModelFeed:
        """The description of its inputs and outputs."""
        return self._found.feed

    def reading(self, columns: Mapping[str, str]) -> LoadedModel:
        """Returns the model reading other columns than in its training.

        Args:
            columns: Its own column -> the column to read instead.
        """
        spec = self._found.feed.spec
        features = tuple(
            feature.model_copy(update={"columns": tuple(columns.get(name, name) for name in feature.columns)})
            for feature in spec.features
        )
        fills = {columns.get(name, name): value for name, value in spec.fill_null.items()}
        feed = self._found.feed.model_copy(
            update={"spec": spec.model_copy(update={"features": features, "fill_null": fills})}
        )
        return LoadedModel(self._spark, self._found._replace(feed=feed), self._signature, self._tags)

    def transform(
        self,
        df: DataFrame,
        columns: str | Mapping[str, str] | None = None,
        *,
        keep: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        max_bad_rows: int = 0,
    ) -> DataFrame:
        """Returns the DataFrame with a column for each output appended; computes nothing yet.

        An output of one value a row is a number or a text; others are arrays. Each executor loads the model once, in a
        process of its own.

        Args:
            columns: Output -> its column; outputs that are not named are left out. A single name is for the only
                output. Default: "prediction" for the only output, else the outputs' own names.
            keep: Columns of `df` to keep. Default: all.
            batch_rows: The most rows in one call of the model.
            max_bad_rows: Rows of a partition that may fail a check, such as for null: their predictions are null. With
                one more the job fails with a `BadValueError` that names partition, row and column.

        Raises:
            ColumnError: a column does not exist.
            BadValueError: a column's type cannot become the tensor that it was in training.
            ConfigError: an output does not exist, or a number is invalid.
        """
        if batch_rows < 1 or max_bad_rows < 0:
            raise ConfigError(
                f"batch_rows is {batch_rows}, and max_bad_rows {max_bad_rows}: give 1 or more, and 0 or more"
            )
        named = self._named(columns)
        going = tuple(df.columns if keep is None else keep)
        self._check(df, going, named)
        needed = {path[0] for path in self._paths(df).values()}
        names = tuple(name for name in df.columns if name in needed or name in going)
        settings = ScoringSettings(
            model=self.saved(),
            feed=self._found.feed,
            names=names,
            kept=tuple(names.index(name) for name in going),
            outputs=tuple(named),
            batch_rows=batch_rows,
            max_bad_rows=max_bad_rows,
            access=task_access(self._spark),
        )

        def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return scored(batches, settings)

        # mapInArrow looks columns up by their names, and would take "user.age" for a field of a struct.
        plain = df.select(*(df[quoted(name)] for name in names)).toDF(*(f"c{i}" for i in range(len(names))))
        given = [df.schema[name] for name in going]
        kinds = [*((field.dataType, field.metadata) for field in given), *((self._type(o), None) for o in named)]
        # Stages of Spark ML keep facts of a column in its metadata, such as the names of its categories.
        fields = [sql.StructField(f"c{i}", kind, metadata=known) for i, (kind, known) in enumerate(kinds)]
        return plain.mapInArrow(score, sql.StructType(fields)).toDF(*going, *named.values())

    def saved(self) -> ScoredModel:
        """Returns the settings by which a scoring process loads it."""
        found, cores = self._found, slots_of(self._spark).cores
        return ScoredModel(
            folder=found.saved_model,
            files=found.files,
            key=found.key,
            hadoop=self._hadoop,
            threads=cores,
            signature=self._signature,
            tags=self._tags,
        )

    def _named(self, columns: str | Mapping[str, str] | None) -> dict[ModelOutput, str]:
        outputs = {output.name: output for output in self._found.feed.outputs}
        if columns is None:
            columns = PREDICTION if len(outputs) == 1 else {name: name for name in outputs}
        if isinstance(columns, str):
            if len(outputs) > 1:
                raise ConfigError(
                    f"columns: {columns!r} is one name for several outputs: name columns of {', '.join(outputs)}"
                )
            columns = dict.fromkeys(outputs, columns)
        for name in columns:
            if name not in outputs:
                raise ConfigError(f"the model has no output {name!r}{nearest(name, outputs)}")
        if unfit := next((name for name in columns if output_arrow_type(outputs[name].dtype) is None), None):
            raise ModelContractError(
                f"output {unfit!r} is {outputs[unfit].dtype}, which no column can hold: leave it out"
            )
        return {outputs[name]: column for name, column in columns.items()}

    def _paths(self, df: DataFrame) -> dict[str, tuple[str, ...]]:
        """Returns the path of each feature name: a column, then the fields within it."""
        types = self._types(df)
        return {name: path_of(types, name) or (name,) for name in self.columns}

    def _types(self, df: DataFrame) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in arrow_schema(self._spark, df.schema)}

    def _check(self, df: DataFrame, going: Sequence[str], named: Mapping[ModelOutput, str]) -> None:
        """Checks that the columns exist and have types that can become the tensors."""
        types = self._types(df)
        schema = Schema(types, lambda column: None)
        for feature in self._found.feed.spec.features:
            for name in feature.columns:
                kind = schema.arrow_type(name, f"input {feature.name}")
                if not fits(feature, kind):
                    raise BadValueError(
                        f"input {feature.name}: column {name!r} is {kind} and cannot be converted to {feature.dtype}"
                    )
        for name in going:
            if name not in types:
                raise ColumnError(f"keep: there is no column {name!r}{nearest(name, types)}")
        for output, column in named.items():
            if column in going:
                raise ConfigError(
                    f"there is a column {column!r} already: give output {output.name!r} another name in columns"
                )

    def _type(self, output: ModelOutput) -> sql.DataType:
        kind: Any = output_arrow_type(output.dtype)
        found: sql.DataType = _SPARK[kind]
        for _ in () if output.is_single else output.shape:
            found = sql.ArrayType(found)
        return found


def load_model(spark: SparkSession, path: str) -> LoadedModel:
    """Returns a model to score DataFrames with.

    Args:
        path: A published version, `<output.path>/<name>` for the current one, a run, or its `model` (`result.model`).

    Raises:
        SourceNotFoundError: there is no model.
        ModelContractError: it does not name the columns of its inputs.
        StorageError: the storage failed.
    """
    file_systems = file_systems_of(spark)
    path = file_systems.normalise(path)
    return LoadedModel(spark, find_model(file_systems.open_runs(path), path))


def quoted(name: str) -> str:
    """Returns a column's name quoted for SQL and `DataFrame.select`."""
    return "`" + name.replace("`", "``") + "`"
