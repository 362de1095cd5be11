"""The order in which people read names that have numbers in them: "hour=9" before "hour=10"."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> list[tuple[int, str]]:
    """Returns what to sort a name by, where numbers in it count as such."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
