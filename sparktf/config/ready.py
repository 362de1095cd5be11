"""The section `data.ready` of the configuration."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import ClassVar, Self

from pydantic import Field, PositiveInt, model_validator

from sparktf.config.duration import Duration, duration_text
from sparktf.config.section import Section

_MOST_PARTITIONS = 100_000


class WindowConfig(Section):
    """Partitions that have to exist: one folder for each day, or hour, from the first to the last."""

    KEY: ClassVar = "data.ready.window"

    folder: str = Field(
        min_length=1,
        description="Folder below `data.path`, as `strftime` writes a time: `date=%Y-%m-%d`, or "
        "`year=%Y/month=%m/day=%d`.",
    )
    first: str = Field(description="The first one's day, or time, in ISO format: `'{{date-29}}'`, `2026-11-20T06:00`.")
    last: str = Field(description="The last one's, e.g. `'{{date}}'`.")
    every: Duration = Field(default=86_400.0, description="Between two of them, e.g. `1h`.")

    @model_validator(mode="after")
    def _has_some(self) -> Self:
        first, last = self._times()
        if last < first:
            raise ValueError(f"last: {self.last} is before first: {self.first}")
        if self.every <= 0:
            raise ValueError(f"every: {duration_text(self.every)} is not more than 0: write 1h or 1d")
        if (last - first).total_seconds() / self.every > _MOST_PARTITIONS:
            raise ValueError(
                f"every: {duration_text(self.every)} makes more than {_MOST_PARTITIONS:,} partitions from first to "
                "last: set a longer one"
            )
        folders = list(self.folders())
        if len(set(folders)) < len(folders):
            raise ValueError(
                f"folder: {self.folder} is one folder for times that are {duration_text(self.every)} apart (every): "
                "name the hour in it, too, as %H"
            )
        return self

    def folders(self) -> Iterator[str]:
        """Yields the folders, the earliest first."""
        time, last = self._times()
        while time <= last:
            yield time.strftime(self.folder).strip("/")
            time += dt.timedelta(seconds=self.every)

    def _times(self) -> tuple[dt.datetime, dt.datetime]:
        return _time("first", self.first), _time("last", self.last)


def _time(key: str, text: str) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{key}: {text!r} is neither a day nor a time: write 2026-11-20 or 2026-11-20T06:00") from None
    if time.tzinfo is not None:
        raise ValueError(f"{key}: {text!r} has a time zone, and folder names have none: leave it out")
    return time


class ReadyConfig(Section):
    """The conditions under which the data at `data.path` is ready. Checked before any executor is held.

    See [readiness.md](../nights/readiness.md).
    """

    KEY: ClassVar = "data.ready"

    window: WindowConfig | None = Field(default=None, description="The partitions that have to be there.")
    success: bool = Field(
        default=False,
        description="The newest partition has to have a file `_SUCCESS`, as Spark and Hadoop write it at a job's end: "
        "the last one of `window`, or the last one there is.",
    )
    min_rows: PositiveInt | None = Field(
        default=None, description="Rows that there have to be, in the window or in all, by the footers of the files."
    )
    max_age: Duration | None = Field(
        default=None,
        description="How long ago the youngest file of the newest partition may have been written, e.g. `36h`.",
    )
    wait: Duration = Field(
        default=0.0, description="How long to wait for all of that, e.g. `2h`; then the run ends with exit code 6."
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if self.window is None and not self.success and self.min_rows is None and self.max_age is None:
            raise ValueError("give at least one of window, success, min_rows and max_age")
        return self
