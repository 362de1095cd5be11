"""The section `data` of the configuration: the source, and which columns become which tensors."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sparktf.config.checks import ChecksConfig
from sparktf.config.ready import ReadyConfig
from sparktf.config.section import FunctionName, Section
from sparktf.config.table_moment import TimestampSetting, VersionSetting, check_moment
from sparktf.predicate import FillValue

PARQUET = "parquet"
TFRECORD = "tfrecord"
READ_DIRECTLY = {PARQUET: (), TFRECORD: ("record_types", "record_sample")}
"""Formats that trainers read themselves -> the keys of this section for them only."""

TABLES = ("delta", "iceberg")
"""Formats of tables whose log tells which Parquet files are their rows: trainers read these, where Spark would find the
same in them."""

ReaderOptions = dict[str, str | bool | int | float]
"""Options of Spark's readers, as configured."""

RecordType = Annotated[
    str,
    Field(
        pattern=r"^(array<(tinyint|smallint|int|bigint|boolean|float|double|string|binary)>"
        r"|tinyint|smallint|int|bigint|boolean|float|double|string|binary)$"
    ),
]


def reader_options(options: ReaderOptions) -> dict[str, str]:
    """Returns options as the text that Spark expects."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


NO_SOURCE = "data names nothing to read: give data.path, data.table, data.sql or data.source"


class FeatureConfig(Section):
    """A named tensor and the columns that it is made of."""

    KEY: ClassVar = "data.inputs.<name>"

    columns: str | tuple[str, ...] = Field(
        description="One column (a tensor of its own shape), or a list of columns packed into a vector `[batch, len]`. "
        "A list may hold patterns such as `pixel_*`, expanded in the order of the file's schema. "
        "A field of a struct is `user.age`."
    )
    shape: tuple[PositiveInt, ...] | None = Field(
        default=None,
        description="Shape of a row where the column is a list, e.g. `[8, 8]`; its length must be the product, or "
        "`pad` and `truncate` make it so.",
    )
    dtype: str | None = Field(
        default=None,
        description="TensorFlow dtype. Default: `float32` for a packed vector and for doubles, else the column's own. "
        "`uint8` of a binary column: its bytes.",
    )
    pad: FillValue | None = Field(default=None, description="Fills up lists shorter than `shape`, at their end.")
    truncate: bool = Field(default=False, description="Cut lists that are longer than `shape` off at their end.")
    ragged: bool = Field(
        default=False,
        description="Lists of any length become a `tf.RaggedTensor` `[batch, None]`: without a `shape`. Inputs only.",
    )
    mask: str | None = Field(
        default=None,
        min_length=1,
        description="Name of a further model input, bool of the same shape: where the column has a value. With it, a "
        "null is no error: `data.fill_null` or zero takes its place. Padding is no value either. Inputs only.",
    )


def _feature(value: Any) -> Any:
    """Expands a bare column name, or a list of names, to a feature."""
    return {"columns": value} if isinstance(value, (str, list, tuple)) else value


FeatureSetting = Annotated[FeatureConfig, BeforeValidator(_feature)]

ONLY_INPUT = "inputs"
"""The name of an input that is given by its columns alone: a model with one input takes it by any name."""


def named_features(value: Any, *, is_learned: bool) -> Any:
    """Returns features by name, where columns are given without: those of a model's only input, or only output.

    Args:
        value: As in `data.inputs`, a column, or a list of columns.
        is_learned: Whether these are targets.

    Raises:
        ValueError: several targets are given, which may be one output or several.
    """
    if isinstance(value, str):
        return {value: value}
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(column, str) for column in value):
        return value
    if not is_learned:
        return {ONLY_INPUT: list(value)}
    if len(value) == 1:
        return {value[0]: value[0]}
    names = ", ".join(f"{column}: {column}" for column in value)
    raise ValueError(
        f"a list of {len(value)} columns may be one output or several: write {{{names}}} for an output each, or "
        f"{{<output>: [{', '.join(value)}]}} for one that has them all"
    )


class ValidationConfig(Section):
    """The source of the held-out rows: exactly one of the three."""

    KEY: ClassVar = "data.validation"

    path: str | None = Field(default=None, description="A source of its own, with the same columns.")
    where: str | None = Field(
        default=None, description="SQL predicate over partition columns: what it selects is held out of training."
    )
    fraction: float | None = Field(
        default=None, gt=0, lt=1, description="Share of the rows, drawn by `train.seed`, the same in every epoch."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(v is not None for v in (self.path, self.where, self.fraction)) != 1:
            raise ValueError("give exactly one of path, where and fraction")
        return self


class DataConfig(Section):
    """The source (path, table, sql, source, or the data given to `train()`), and which columns become which tensors."""

    KEY: ClassVar = "data"

    path: str | None = Field(
        default=None, description="Folder of a Parquet lake (hive-style partition folders are columns), or one file."
    )
    format: str = Field(
        default=PARQUET,
        min_length=1,
        description="What lies at `path`: `parquet`, `tfrecord` ([tfrecords.md](tfrecords.md)), or another format of "
        "Spark's.",
    )
    options: ReaderOptions = Field(
        default={},
        description="Options of Spark's reader of the files at `path`, e.g. `{header: true, sep: ';'}` of `csv`.",
    )
    record_types: dict[str, RecordType] | None = Field(
        default=None,
        min_length=1,
        description="Feature of TFRecord files -> type of the column that it becomes, e.g. `bigint` or "
        "`array<float>`. Default: what the first records have.",
    )
    record_sample: PositiveInt = Field(
        default=1000,
        description="How many records of TFRecord files are looked at to tell the types of their features.",
    )
    table: str | None = Field(
        default=None, min_length=1, description="Table or view of Spark's catalogs, e.g. `sales.orders`."
    )
    version: VersionSetting = None
    timestamp: TimestampSetting = None
    sql: str | None = Field(default=None, min_length=1, description="Query in Spark SQL, whose result is read.")
    source: FunctionName | None = Field(
        default=None,
        description="`module:function`, called as `function(spark, params)`, that returns a DataFrame or an RDD.",
    )
    mode: Literal["auto", "direct", "spark"] = Field(
        default="auto",
        description="`direct`: trainers read the Parquet files themselves; `spark`: Spark reads; `auto`: directly, "
        "where the source is a plain scan of Parquet files, also of those of a Delta or an Iceberg table "
        "([data.md](data.md)).",
    )
    rdd_schema: str | None = Field(
        default=None, description="Schema of an RDD's rows, as Spark's DDL: `id bigint, x array<float>, y float`."
    )
    where: str | None = Field(
        default=None, description="SQL predicate over partition columns, e.g. `date >= '2026-11-01'`."
    )
    ready: ReadyConfig | None = Field(
        default=None,
        description="What has to lie at `path` before the run begins ([readiness.md](../nights/readiness.md)).",
    )
    checks: ChecksConfig | None = Field(
        default=None,
        description="Statistics of the columns, and bounds of these ([data-checks.md](../nights/data-checks.md)).",
    )
    inputs: dict[str, FeatureSetting] = Field(
        min_length=1,
        description="Model input name -> column, list of columns, or a feature. A list of columns alone is packed into "
        "the only input.",
    )
    targets: dict[str, FeatureSetting] = Field(
        min_length=1,
        description="Model output name -> column or feature to learn. A column alone is what the only output learns.",
    )
    sample_weight: str | dict[str, str] | None = Field(
        default=None, description="Column that weights each row's loss, or one per output."
    )
    fill_null: dict[str, FillValue] = Field(
        default={},
        description="Column -> value in place of null, also within lists. A null in any other used column is refused, "
        "unless its feature has a `mask`.",
    )
    max_bad_rows: NonNegativeInt = Field(
        default=0,
        description="How many rows of an epoch may fail a check (a null, a NaN target, a list of a wrong length, a "
        "damaged row group, ...): they are left out and listed in `bad_rows/` of the run. One more, and the run is "
        "refused.",
    )
    validation: ValidationConfig | None = Field(
        default=None,
        description="Held-out rows, evaluated after each epoch, or by a node of its own (`cluster.evaluator`).",
    )
    shuffle: bool = Field(
        default=True, description="Permute rows within shuffle blocks, and the blocks, anew in each epoch."
    )
    shuffle_rows: PositiveInt = Field(
        default=131_072, description="Rows of a shuffle block: row groups are put together up to about this many."
    )
    rebalance: bool = Field(
        default=True,
        description="Cut shuffle blocks so that every worker gets the same number of rows. "
        "Off: blocks stay whole, so that a stored plan replays bit for bit.",
    )
    locality: bool = Field(
        default=True, description="Give each worker first what HDFS holds on its own host. Off: whatever comes next."
    )
    cache: Literal["auto", "on", "off", "disk"] = Field(
        default="auto",
        description="Whether nodes keep the rows that Spark fed them for later epochs, instead of having Spark compute "
        "them again. `auto`: where there are several epochs. `disk`: also those that they read themselves from HDFS or "
        "an object store, on the executor's local disk.",
    )
    cache_mib: PositiveInt = Field(
        default=32_768,
        description="With `cache: disk`, upper bound of what each trainer keeps on the local disk, in MiB; never more "
        "than half of what is free there. The rest is read again in each epoch.",
    )
    staging_mib: PositiveInt = Field(
        default=512,
        description="Memory of each trainer for rows that Spark has fed and that wait or are kept, in MiB; the rest "
        "goes to files on the executor's local disk.",
    )
    prefetch_mib: PositiveInt = Field(
        default=256, description="Upper bound of rows read ahead in each trainer, in MiB."
    )

    @property
    def reader_options(self) -> dict[str, str]:
        """`options` as Spark expects them."""
        return reader_options(self.options)

    @property
    def is_sparks_format(self) -> bool:
        """Whether only Spark reads the format."""
        return self.format not in READ_DIRECTLY

    @property
    def may_be_direct(self) -> bool:
        """Whether trainers may be able to read the format."""
        return self.format in READ_DIRECTLY or self.format in TABLES

    @property
    def names_table(self) -> bool:
        """Whether the source is a table at a path, whose log tells which files are its rows."""
        return self.path is not None and self.format in TABLES

    @property
    def names_files(self) -> bool:
        """Whether the source is files in a format that trainers read themselves."""
        return self.path is not None and not self.is_sparks_format

    @property
    def foreign_keys(self) -> set[str]:
        """The keys that apply to other formats only."""
        return {key for name, keys in READ_DIRECTLY.items() if name != self.format for key in keys}

    @property
    def source_key(self) -> str | None:
        """The key that names the source; None if the data is given to `train()`."""
        return next(iter(self._named()), None)

    def _named(self) -> list[str]:
        return [key for key in ("path", "table", "sql", "source") if getattr(self, key) is not None]

    @field_validator("inputs", "targets", mode="before")
    @classmethod
    def _columns_alone(cls, value: Any, info: ValidationInfo) -> Any:
        return named_features(value, is_learned=info.field_name == "targets")

    @model_validator(mode="after")
    def _source_is_one(self) -> Self:
        named = self._named()
        if len(named) > 1:
            raise ValueError(f"give one of path, table, sql and source, not {' and '.join(named)}")
        if self.format != PARQUET and self.path is None:
            raise ValueError(f"format: {self.format} needs path: give path, or leave format out")
        if self.options and (self.path is None or self.format == TFRECORD):
            raise ValueError("options are for Spark's reader of files: give path, and no format: tfrecord")
        if not self.may_be_direct and self.mode == "direct":
            formats = (*READ_DIRECTLY, *TABLES)
            raise ValueError(
                f"mode: direct needs format: {', '.join(formats[:-1])} or {formats[-1]}, not {self.format}"
            )
        if self.format != TFRECORD and self.record_types is not None:
            raise ValueError(f"record_types needs format: {TFRECORD}, and format is {self.format}: leave it out")
        is_table = self.table is not None or (self.path is not None and self.is_sparks_format)
        source = "a path of Parquet files" if self.path is not None else self.source_key or "the data given to train()"
        check_moment(self.version, self.timestamp, source, is_table=is_table)
        return self

    @model_validator(mode="after")
    def _ready_looks_at_files(self) -> Self:
        if self.ready is not None and self.path is None:
            raise ValueError("ready needs files: give path, or leave ready out")
        if self.ready is not None and self.ready.min_rows is not None and self.format != PARQUET:
            raise ValueError(
                f"ready.min_rows needs the footers of Parquet files, and format is {self.format}: leave it out"
            )
        return self
