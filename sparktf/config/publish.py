"""The sections `output`, `export` and `publish`: where results go, and which ones readers see."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from sparktf.config.section import Section

_SERVER = re.compile(r"https?://[^@\s]+|databricks(://[^@\s]+)?")


class MlflowConfig(Section):
    """An MLflow run for each run, shared by all submissions of its run id; see [guests.md](../nights/guests.md)."""

    KEY: ClassVar = "output.mlflow"

    tracking_uri: str | None = Field(
        default=None,
        description="Of the tracking server, as `https://mlflow.example.org`; names and passwords go into the driver's "
        "environment. Default: `MLFLOW_TRACKING_URI` of that.",
    )
    experiment: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="The experiment, which is made where there is none. Default: `name`."
    )
    registered_model: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Name under which the model of a run that is done becomes a version in MLflow's registry: the "
        "published one, where `publish` is given. Default: none.",
    )

    @field_validator("tracking_uri")
    @classmethod
    def _is_a_server(cls, uri: str | None) -> str | None:
        if uri is not None and not _SERVER.fullmatch(uri):
            raise ValueError(
                "must be https://HOST, http://HOST or databricks, without a name and a password: these go into the "
                "driver's environment, as MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            )
        return uri


class ExportConfig(Section):
    """The file formats of a trained model."""

    KEY: ClassVar = "export"

    formats: tuple[Literal["saved_model", "keras"], ...] = Field(
        default=("saved_model", "keras"),
        description="`saved_model` is what readers use, and always there; `keras` is a `.keras` file, which later runs "
        "begin from. A model that Keras cannot write into such a file, such as one with a schedule without "
        "`get_config`, is refused before it is trained, unless the file is left out here.",
    )

    @field_validator("formats")
    @classmethod
    def _has_what_readers_use(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        if "saved_model" not in formats:
            raise ValueError("must include saved_model, the format that readers use")
        return tuple(dict.fromkeys(formats))


class OutputConfig(Section):
    """Where results go."""

    KEY: ClassVar = "output"

    path: str = Field(
        description="Root of all runs: a run writes to `<path>/<name>/<run id>/` "
        "(checkpoints, model, logs, events, tensorboard, result.json)."
    )
    history: bool = Field(
        default=False,
        description="Keep a row of each run that ends in the table `<path>/_runs`, which `sparktf runs` shows, and "
        "Spark and Hive read ([history.md](../nights/history.md)).",
    )
    report: bool = Field(
        default=False,
        description="Write two pages at the end of each run: `report.html` in its folder, and "
        "`<path>/<name>/index.html` of all runs of the name ([report.md](../nights/report.md)).",
    )
    progress_seconds: PositiveFloat = Field(
        default=5.0,
        description="Least time between progress lines where there is no terminal: one for each tenth of an epoch, "
        "and one for what is waited for.",
    )
    keep_models: PositiveInt | None = Field(
        default=None,
        description="Newest published models kept, and the one that `CURRENT` names; older ones are deleted when "
        "another is published. Default: all.",
    )
    keep_runs: PositiveInt | None = Field(
        default=None,
        description="Newest ended runs of this name kept, and the one whose model `CURRENT` names; older ones are "
        "deleted at the end of a run. Default: all.",
    )
    mlflow: MlflowConfig | None = Field(
        default=None,
        description="Whether MLflow learns of the run; needs `pip install mlflow-skinny` where the driver runs.",
    )
    on_end: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Command and arguments, run on the driver's machine once a run has a result, whatever the verdict; "
        "it gets result.json on its standard input: "
        "[guests.md](../nights/guests.md#a-command-of-your-own-outputon_end).",
    )


class PublishConfig(Section):
    """Puts the model of a completed run into `<output.path>/<name>/serving/`.

    See [publishing.md](../nights/publishing.md).
    """

    KEY: ClassVar = "publish"

    date: str | None = Field(
        default=None,
        description="Day that the model is of, as YYYY-MM-DD: it never takes the place of a later day's. Default: "
        "`--date`, else the day on which it is published (UTC).",
    )

    imports: tuple[str, ...] = Field(
        default=(),
        description="Modules that whoever reads the model has imported, which bring operations of their own, such as "
        "`tensorflow_text`: so has the fresh process that tries it. Installed ones: it does not see the model's code.",
    )

    @field_validator("date")
    @classmethod
    def _is_a_day(cls, date: str | None) -> str | None:
        if date is not None and not _is_day(date):
            raise ValueError(f"{date!r} is no day of the calendar as YYYY-MM-DD")
        return date


def _is_day(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
