"""The section `predict` of the configuration: the rows that `jobs/predict.py` scores, and the output."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from sparktf.config.data_section import PARQUET, ReaderOptions
from sparktf.config.section import Section
from sparktf.config.table_moment import TimestampSetting, VersionSetting, check_moment

PREDICT = "predict"
"""The section's key, and the first argument of the shipped program for a scoring job."""

PUBLISHED = "published"
AS_OF = "as-of"
RUN = "run:"
MODEL_WORDS = (PUBLISHED, AS_OF)
"""Values of `predict.model` that are neither a run nor a path."""

_PLAIN = re.compile(r"""[^\s_.\x00-\x1f"#%'*/:=?\\{}\[\]^][^\x00-\x1f"#%'*/:=?\\{}\[\]^]*""")
"""A name that Spark and Hive use in folder names unescaped."""


class PredictSourceConfig(Section):
    """The rows that are scored: one of `path`, `table` and `sql`."""

    KEY: ClassVar = "predict.source"

    path: str | None = Field(default=None, description="Files, or folders of them.")
    format: str = Field(default="parquet", description="Of the files: a format of Spark's.")
    options: ReaderOptions = Field(default={}, description="Options of Spark's reader of the files, as `data.options`.")
    table: str | None = Field(default=None, description="A table or a view of the session.")
    version: VersionSetting = None
    timestamp: TimestampSetting = None
    sql: str | None = Field(default=None, description="A query.")
    where: str | None = Field(default=None, description="Rows that a predicate of Spark's SQL selects. Default: all.")

    @property
    def is_plain_files(self) -> bool:
        """Whether Spark reads all files below `path`, even those of a table's older versions."""
        return self.path is not None and self.format == PARQUET

    @model_validator(mode="after")
    def _names_one_source(self) -> Self:
        if sum(value is not None for value in (self.path, self.table, self.sql)) != 1:
            raise ValueError("predict.source needs exactly one of path, table and sql")
        if self.options and self.path is None:
            raise ValueError("predict.source.options are for Spark's reader of files: give path")
        is_table = self.table is not None or (self.path is not None and not self.is_plain_files)
        source = "sql" if self.sql is not None else "a path of Parquet files"
        check_moment(self.version, self.timestamp, source, is_table=is_table)
        return self


class PredictOutputConfig(Section):
    """The output for a day's predictions: a partition, replaced as a whole."""

    KEY: ClassVar = "predict.output"

    path: str | None = Field(
        default=None, description="Folder of Parquet files: a day's are in `<path>/<partition>=<date>/`."
    )
    table: str | None = Field(
        default=None, description="A table of the session's catalog, which is made where there is none."
    )
    partition: Annotated[str, Field(min_length=1)] = Field(
        default="date", description="The column that the table or folder is partitioned by: it has the value of --date."
    )

    @field_validator("partition")
    @classmethod
    def _is_plain(cls, partition: str) -> str:
        if not _PLAIN.fullmatch(partition):
            raise ValueError(
                f"{partition!r} cannot name a folder as it is: give the column a name without / = \\ % : ' \" # * ? "
                "{ } [ ] ^ that begins with neither _ nor a dot"
            )
        return partition

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        if (self.path is None) == (self.table is None):
            raise ValueError("predict.output needs exactly one of path and table")
        return self


class PredictConfig(Section):
    """The job `jobs/predict.py`; see [predict.md](predict.md)."""

    KEY: ClassVar = "predict"

    model: Annotated[str, Field(min_length=1)] = Field(
        default=PUBLISHED,
        description="`published` for the model that readers take, `as-of` for the newest published one that is of an "
        "earlier day than `--date`, `run:<id>` for that of a run of this name, or the path of another one; `--model` "
        "goes first.",
    )
    source: PredictSourceConfig | None = Field(
        default=None, description="The rows. Default: those of `data`, with `data.where`."
    )
    output: PredictOutputConfig = Field(description="Where the predictions go.")
    overwrite: Literal["own", "any"] = Field(
        default="own",
        description="What may be in the place of a day's predictions on `output.path`, and is replaced: `own` "
        "predictions of this name alone, or `any`thing.",
    )
    keep: tuple[str, ...] | None = Field(
        default=None, description="Columns of the rows that are written beside the predictions. Default: all."
    )
    columns: dict[str, str] | None = Field(
        default=None,
        description="Output of the model: its column; outputs that are not named are left out. Default: `prediction` "
        "for the only output, else the outputs' own names.",
    )
    version_column: Annotated[str, Field(min_length=1)] = Field(
        default="model_version",
        description="Column that says in every row which model has predicted: its version, else `run:<id>` or a path.",
    )
    batch_rows: PositiveInt = Field(default=4096, description="Rows in one call of the model, at most.")
    max_bad_rows: NonNegativeInt = Field(
        default=0,
        description="Rows of a Spark partition that may fail a check: their predictions are null. With one more the "
        "job ends with exit code 3.",
    )
