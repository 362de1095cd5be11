"""The order of names in which numbers count as such: "hour=9" before "hour=10"."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> list[tuple[int, str]]:
    """Returns the sort key of a name."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
