"""Which Python sparktf runs on: asked before anything is imported that others lack.

Imports nothing of sparktf's, and runs on Pythons that sparktf does not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

_REFUSED = 2
"""As `sparktf.errors.Verdict` has it, which other Pythons cannot import."""

_FIRST_PYTHON, _LAST_PYTHON = (3, 11), (3, 13)


def python_complaint(version: Sequence[int], who: str = "this") -> str | None:
    """Returns why a Python will not do, None where it will."""
    if _FIRST_PYTHON <= tuple(version[:2]) <= _LAST_PYTHON:
        return None
    return (
        f"{who} is Python {version[0]}.{version[1]}, and sparktf runs on 3.11, 3.12 and 3.13: "
        "name one of these in PYSPARK_PYTHON"
    )


def start(job: str) -> NoReturn:
    """Runs a job of `sparktf.main`, and ends the process with its verdict: refused, where this Python cannot run it.

    Python itself would end with 1 for an import that fails, which is the model's own failure.
    """
    complaint = python_complaint(sys.version_info[:2], sys.executable)
    if complaint is None:
        try:
            main = importlib.import_module("sparktf.main")
        except ImportError as error:
            complaint = lacks(error)
        else:
            sys.exit(getattr(main, job)())
    print(f"PreflightError: {complaint}", file=sys.stderr)
    sys.exit(_REFUSED)


def lacks(error: ImportError) -> str:
    """Returns what to say of a Python that cannot import what sparktf needs."""
    return (
        f"{sys.executable} cannot run sparktf: {error}: install sparktf with all it needs there, or name another "
        "Python in PYSPARK_PYTHON"
    )
