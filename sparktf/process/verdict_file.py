"""A file in which a driver gives `sparktf submit` its verdict, since `spark-submit`'s exit code cannot.

`spark-submit` ends with 1 for any failure before the driver's first line, and 1 is a failure of the model's code.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

VARIABLE = "SPARKTF_VERDICT_FILE"


def named_verdict_file() -> Path | None:
    """Returns the path for this driver's verdict; None if unset. Removed from the environment of its children."""
    named = os.environ.pop(VARIABLE, None)
    return Path(named) if named else None


def tell_verdict(file: Path | None, code: int) -> None:
    """Writes it, if asked for. Raises nothing: it is the exit code too."""
    if file is not None:
        with suppress(OSError):
            file.write_text(str(code), encoding="ascii")


def told_verdict(file: Path) -> int | None:
    """Returns the verdict of a driver that has ended; None if it did not get that far."""
    try:
        told = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return int(told) if told.isdecimal() else None
