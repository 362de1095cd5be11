"""The keys that choose a version of a table which keeps older ones, for the sections that name a source."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import AfterValidator, Field

MOMENT_KEYS = ("version", "timestamp")


def _iso(text: str | None) -> str | None:
    if text is not None:
        try:
            dt.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError("must be a date or a time as in 2026-11-20T02:00:00") from None
    return text


VersionSetting = Annotated[
    int | None,
    Field(
        ge=0,
        description="Version of a Delta table, or id of an Iceberg table's snapshot, that is read: of `table`, or of "
        "`path` with `format: delta` or `iceberg`. Default: the newest.",
    ),
]
TimestampSetting = Annotated[
    str | None,
    AfterValidator(_iso),
    Field(
        description="Reads such a table as it was then, e.g. `2026-11-20T02:00:00`: in the session's time zone, unless "
        "it names one.",
    ),
]


def check_moment(version: int | None, timestamp: str | None, source: str, *, is_table: bool) -> None:
    """Checks the two keys against the source of their section.

    Args:
        source: The source in words.
        is_table: Whether it may be a table that keeps older versions.

    Raises:
        ValueError: both are given, or one for a source that has no versions.
    """
    given = [key for key, value in zip(MOMENT_KEYS, (version, timestamp), strict=True) if value is not None]
    if len(given) > 1:
        raise ValueError("give one of version and timestamp, not both")
    if given and not is_table:
        raise ValueError(
            f"{given[0]} chooses among the versions of a Delta or an Iceberg table, and {source} has none: it goes "
            "with table, or with path and format: delta or iceberg"
        )
