"""Checks the Python version before any import that other versions cannot do.

Imports nothing of sparktf's, and runs on Pythons that sparktf does not support.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence
from typing import NoReturn

_REFUSED = 2
"""As in `sparktf.errors.Verdict`, which other Pythons cannot import."""

_FIRST_PYTHON, _LAST_PYTHON = (3, 11), (3, 13)

_TENSORFLOW_OF_SERVERS = "2.21."
"""The one in whose parameter server training a lost worker's successor is known to be brought in."""


def python_complaint(version: Sequence[int], who: str = "this") -> str | None:
    """Returns why a Python is not supported, None if it is."""
    if _FIRST_PYTHON <= tuple(version[:2]) <= _LAST_PYTHON:
        return None
    return (
        f"{who} is Python {version[0]}.{version[1]}, and sparktf runs on 3.11, 3.12 and 3.13: "
        "name one of these in PYSPARK_PYTHON"
    )


def servers_complaint(tensorflow: str) -> str | None:
    """Returns why `parameter_server` does not run on a version of TensorFlow, None if it does."""
    if tensorflow.startswith(_TENSORFLOW_OF_SERVERS):
        return None
    return (
        f"cluster.strategy: parameter_server needs TensorFlow {_TENSORFLOW_OF_SERVERS}x to replace lost workers, and "
        f"{tensorflow} is installed: install {_TENSORFLOW_OF_SERVERS}x, or choose another strategy"
    )


def installed_servers_complaint() -> str | None:
    """Returns the same of the installed TensorFlow, which the nodes have too; None where none is installed."""
    try:
        return servers_complaint(importlib.metadata.version("tensorflow"))
    except importlib.metadata.PackageNotFoundError:
        return None


def start(job: str) -> NoReturn:
    """Runs a job of `sparktf.main`, and ends the process with its verdict; refuses an unsupported Python.

    Python itself would end with 1 for a failed import, which stands for a failure of the model's code.
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
    """Returns the message for a Python without the modules that sparktf needs."""
    return (
        f"{sys.executable} cannot run sparktf: {error}: install sparktf with all it needs there, or name another "
        "Python in PYSPARK_PYTHON"
    )
