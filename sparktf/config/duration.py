"""Durations as people write them: `90s`, `30m`, `2h`, `7d`."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sparktf.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = re.compile(rf"(\d+(?:\.\d+)?)\s*([{''.join(_UNITS)}])")


def _seconds(value: Any) -> Any:
    """Returns a text's seconds; any other value is left to pydantic."""
    if not isinstance(value, str):
        return value
    found = _LENGTH.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value!r} is no length of time: write 90s, 30m, 2h or 7d, or a number of seconds")
    return float(found[1]) * _UNITS[found[2]]


READ_DURATION = BeforeValidator(_seconds)
Duration = Annotated[float, READ_DURATION, Field(ge=0, allow_inf_nan=False)]
"""Seconds; in a file also `90s`, `30m`, `2h` or `7d`."""


def seconds_of(option: str, text: str) -> float:
    """Returns the seconds of a command-line option. Raises `ConfigError` if it is no duration."""
    try:
        return float(_seconds(text))
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def duration_text(seconds: float) -> str:
    """Returns a duration in the largest unit that divides it: "2 h", "90 s"."""
    for unit, length in reversed(_UNITS.items()):
        if seconds >= length and math.isclose(seconds % length, 0, abs_tol=1e-9):
            return f"{seconds / length:g} {'min' if unit == 'm' else unit}"
    return f"{seconds:g} s"
