"""The rows that Spark computes and feeds: the part of a user's DataFrame or RDD that belongs to each stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.driver.plan.features import Schema
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import feed_spec
from sparktf.driver.source.dataframe import Data, Opened, filtered, open_dataframe, spark_errors
from sparktf.driver.source.lake import PlannedFiles
from sparktf.driver.source.table_logs import LoggedTable, open_log
from sparktf.driver.source.table_version import ICEBERG_TABLE, TableVersion, is_listed_in_order
from sparktf.driver.spark.differences import schema_as_arrow
from sparktf.driver.spark.feeders import FrameRows, RddRows
from sparktf.errors import ConfigError
from sparktf.executor.rows import to_tuples
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.nested import path_of
from sparktf.sequence import Stream

_HASH_RANGE = 1 << 31


class Origin:
    """The source of a run's rows in Spark: opened when first asked for, and once in a submission.

    So the planned rows are fed, and a `data.source` function runs once: it may be expensive, or make other rows the
    next time.

    Attributes:
        is_given: Whether a DataFrame or an RDD was handed to `train()`.
    """

    def __init__(self, spark: SparkSession, config: JobConfig, given: object = None) -> None:
        """Opens nothing yet. `given` is the argument of `train()`, if any."""
        self.is_given = given is not None
        self._spark = spark
        self._config = config
        self._given = given
        self._files: PlannedFiles | None = None
        self._planned: int | None = None

    def follow(self, plan: Plan) -> None:
        """Makes the rows, unless they are opened already, those of a plan: of its version of a table, and of its files.

        Spark would list other files where folders are no columns, and take the columns of the first files of the lake.
        """
        self._planned = plan.source_version
        self._files = PlannedFiles.of(plan)

    @property
    def data(self) -> Data:
        """The rows. Raises as `open_dataframe`."""
        return self._opened.data

    def open(self) -> None:
        """Opens it. Raises as `open_dataframe`, and as `open_log`."""
        if self.log is None:
            _ = self._opened

    @property
    def version(self) -> TableVersion | None:
        """The version of the table, if the rows are of one. Raises as `open_dataframe`."""
        return self._opened.version if self.log is None else self.log.version

    @cached_property
    def log(self) -> LoggedTable | None:
        """The table's files, where the session has no connector for it. Raises as `open_log`."""
        return None if self.is_given else open_log(self._spark, self._config, self._planned)

    @property
    def is_unordered(self) -> bool:
        """Whether Spark may make other partitions of the same table at each reading."""
        version = self.version
        return version is not None and version.kind == ICEBERG_TABLE and not is_listed_in_order()

    @cached_property
    def _opened(self) -> Opened:
        if self.log is not None:
            return Opened(self.log.frame(self._spark), self.log.version)
        return open_dataframe(self._spark, self._config, self._given, files=self._files, planned=self._planned)

    @cached_property
    def fed(self) -> SparkData:
        """The rows as Spark feeds them. Raises as `open_dataframe` and `SparkData`."""
        return SparkData(self._spark, self._config, self.data)


class SparkData:
    """A user's data to be fed: a DataFrame, or an RDD with the schema declared in the configuration."""

    def __init__(self, spark: SparkSession, config: JobConfig, data: Data) -> None:
        """Looks at the schema.

        Raises:
            ConfigError: an RDD without `data.rdd_schema`, or with one that Spark cannot read.
        """
        self._spark = spark
        self._config = config.data
        self._seed = config.train.seed
        self._frame: DataFrame | None = None
        self._rows: RDD[Any] | None = None
        if isinstance(data, DataFrame):
            self._frame, schema = data, data.schema
        else:
            self._rows, schema = data, _declared(spark, config.data)
            # Predicates are Spark's, and so are the rows that it draws: what it must look into, it gets as a DataFrame.
            if config.data.where is not None or config.data.validation is not None:
                self._frame, self._rows = _as_frame(spark, data, schema), None
        self._declared = schema
        self.schema = arrow_schema(spark, schema)

    def plan(self, config: JobConfig) -> Plan:
        """Plans a run whose streams Spark feeds: its tensors. The number of rows is not known beforehand.

        Raises:
            ConfigError: a dtype, shape or fill value does not fit the schema.
            ColumnError: a column is not in it.
            BadValueError: a column's type cannot become the tensor.
        """
        schema = Schema({field.name: field.type for field in self.schema}, lambda column: None)
        held_out = config.data.validation is not None
        spec = feed_spec(config, schema)
        self.stream(Stream.TRAIN, spec)  # a predicate that does not fit is refused now
        return Plan(
            spec=spec,
            plan_hash=config.plan_hash(),
            files=(),
            partition_values=(),
            tables={},
            staged=(Stream.TRAIN, Stream.VALIDATION) if held_out else (Stream.TRAIN,),
        )

    def stream(self, stream: Stream, spec: FeedSpec) -> FrameRows | RddRows:
        """Returns the rows and columns of a stream. Raises `ConfigError` if a predicate does not fit."""
        used = sorted({column for feature in spec.features for column in feature.columns})
        if self._rows is not None:
            roots = sorted({self._path(column)[0] for column in used})
            return RddRows(self._rows, pa.schema([self.schema.field(root) for root in roots]), self.schema.names)
        if self._frame is None:
            raise ConfigError("there is no data: give train() a DataFrame or an RDD, or name a source in section data")
        frame = filtered(self._frame, self._config.where, "data.where")
        columns = self._columns(frame, used)
        held_out = _held_out(self._config, frame, columns, self._seed)
        if held_out is not None:
            # A predicate that is null selects nothing, here too.
            known = sql.coalesce(held_out, sql.lit(False))
            frame = frame.where(known if stream is Stream.VALIDATION else ~known)
        return FrameRows(frame.select(*columns))

    def table(self, columns: Sequence[str]) -> DataFrame:
        """Returns the columns that features name, of all rows that pass `data.where`.

        Raises:
            ConfigError: the predicate does not fit.
        """
        frame = self._frame
        if frame is None and self._rows is not None:
            frame = _as_frame(self._spark, self._rows, self._declared)
        if frame is None:
            raise ConfigError("there is no data: give train() a DataFrame or an RDD, or name a source in section data")
        frame = filtered(frame, self._config.where, "data.where")
        return frame.select(*self._columns(frame, columns))

    def _columns(self, frame: DataFrame, names: Iterable[str]) -> list[Column]:
        return [frame[_quoted(self._path(name))].alias(name) for name in names]

    def _path(self, column: str) -> tuple[str, ...]:
        """Returns the column, or the column and the fields in it, of a name in a feature."""
        return path_of({field.name: field.type for field in self.schema}, column) or (column,)


def _declared(spark: SparkSession, config: DataConfig) -> StructType:
    if config.rdd_schema is None:
        raise ConfigError(
            "data.rdd_schema: an RDD needs the schema of its rows, e.g. `id bigint, x array<float>, y float`"
        )
    with spark_errors("data.rdd_schema"):
        return spark.createDataFrame([], config.rdd_schema).schema


def arrow_schema(spark: SparkSession, schema: StructType) -> pa.Schema:
    """Returns the schema as feeders will see it; a type that Spark cannot turn into Arrow's becomes null."""
    try:
        return schema_as_arrow(spark, schema)
    except PySparkException:
        fields, half = schema.fields, len(schema.fields) // 2
        if not half:
            return pa.schema([pa.field(field.name, pa.null()) for field in fields])
        halves = (StructType(fields[:half]), StructType(fields[half:]))
        return pa.schema([field for part in halves for field in arrow_schema(spark, part)])


def _as_frame(spark: SparkSession, rows: RDD[Any], schema: StructType) -> DataFrame:
    """Returns an RDD as a DataFrame. As when it is fed, its Rows are read by name and its values checked: Spark itself
    takes the values of Rows by position.
    """
    fields = arrow_schema(spark, schema)

    def tuples(split: int, part: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        return to_tuples(part, fields, split)

    return spark.createDataFrame(rows.mapPartitionsWithIndex(tuples), schema, verifySchema=False)


def _held_out(config: DataConfig, frame: DataFrame, columns: Sequence[Column], seed: int) -> Column | None:
    """Returns a condition that is true for rows of the validation stream; None if there are none."""
    validation = config.validation
    if validation is None:
        return None
    if validation.path is not None:
        raise ConfigError(
            "data.validation.path needs files that trainers read themselves; for a DataFrame, use where or fraction"
        )
    if validation.where is not None:
        filtered(frame, validation.where, "data.validation.where")
        return sql.expr(validation.where)
    # Drawn by the row's content, so that a row is on the same side in every epoch, whatever order Spark computes it in,
    # and no row that training sees is in validation too.
    drawn = sql.pmod(sql.xxhash64(sql.lit(seed), *columns), sql.lit(_HASH_RANGE))
    return drawn < int((validation.fraction or 0.0) * _HASH_RANGE)


def _quoted(path: Sequence[str]) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)
