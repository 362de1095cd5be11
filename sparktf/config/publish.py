"""The sections `output` and `publish` of the configuration: where results go, and which of them readers see."""

from __future__ import annotations

import datetime as dt

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from sparktf.config.section import Section


class OutputConfig(Section):
    """Where results go."""

    path: str = Field(
        description="Root of all runs: a run writes to `<path>/<name>/<run id>/` "
        "(checkpoints, model, logs, events, tensorboard, result.json)."
    )
    history: bool = Field(
        default=False,
        description="Keep a row of each run that ends in the table `<path>/_runs`, which `sparktf runs` shows, and "
        "Spark and Hive read ([nightly.md](nightly.md)).",
    )
    report: bool = Field(
        default=False,
        description="Write two pages at the end of each run: `report.html` in its folder, and "
        "`<path>/<name>/index.html` of all runs of the name ([report.md](report.md)).",
    )
    progress_seconds: PositiveFloat = Field(
        default=5.0, description="Time between progress lines where there is no terminal."
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


class PublishConfig(Section):
    """Puts the model of a run that is done into `<output.path>/<name>/serving/`; see [nightly.md](nightly.md)."""

    date: str | None = Field(
        default=None,
        description="Day that the model is of, as YYYY-MM-DD: it never takes the place of a later day's. Default: "
        "`--date`, else the day on which it is published (UTC).",
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
