"""How a driver tells `sparktf submit` its verdict: in a file of its own, beside what `spark-submit` ends with.

`spark-submit` ends with 1 for whatever goes wrong before the driver's first line, and 1 is the model's own failure.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

VARIABLE = "SPARKTF_VERDICT_FILE"


def named_verdict_file() -> Path | None:
    """Returns where this driver is to tell its verdict; None where nobody asks. Whom it starts is not asked."""
    named = os.environ.pop(VARIABLE, None)
    return Path(named) if named else None


def tell_verdict(file: Path | None, code: int) -> None:
    """Tells it, if anybody asks. Raises nothing: it is the exit code too."""
    if file is not None:
        with suppress(OSError):
            file.write_text(str(code), encoding="ascii")


def told_verdict(file: Path) -> int | None:
    """Returns what a driver that has ended has told; None where it did not get so far."""
    try:
        told = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return int(told) if told.isdecimal() else None
