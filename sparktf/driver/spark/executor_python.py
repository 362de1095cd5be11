"""Spark's errors about an executors' Python that cannot run our code: no retry helps, so they are raised at once."""

from __future__ import annotations

import re
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext

from sparktf.driver.spark.jvm_executors import failed_tasks
from sparktf.errors import PreflightError

_DEFAULT = "python3"
"""Spark's default Python."""

_MISSING = re.compile(r"^\s*ModuleNotFoundError: No module named '?([\w.]+)'?", re.MULTILINE)
_VERSIONS = re.compile(r"Python in worker has different version: (\S+) than that in driver: (\S+?),")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')


def unfit_python(error: BaseException, group: str = "") -> PreflightError | None:
    """Returns the error for an executor's Python that could not run a task; None for other errors.

    Args:
        group: Of the job that has failed: the place of its first failed task is added.
    """
    active = SparkContext._active_spark_context
    try:
        text = str(error)
    except (Py4JError, OSError):  # py4j asks the JVM for the text
        return None
    if _wrong(text) is None:
        return None
    place = _place(active, group) if active is not None and group else ""
    return unfit_by_words(text, _DEFAULT if active is None else str(active.pythonExec), place)


def unfit_by_words(text: str, python: str, place: str = "") -> PreflightError | None:
    """Returns the error, by Spark's message.

    Args:
        python: The interpreter that Spark was told to start, or its default.
        place: Host and executor, "" if unknown.
    """
    what = _wrong(text)
    if what is None:
        return None
    host = f" on {place}" if place else ""
    named = "PYSPARK_PYTHON is not set" if python == _DEFAULT else f"PYSPARK_PYTHON is {python}"
    return PreflightError(
        f"the executors' Python, {python}{host}, {what}; {named}: set it to a Python that has sparktf and its "
        "dependencies, before the session begins"
    )


def _wrong(text: str) -> str | None:
    if found := _MISSING.search(text):
        return f"has no module '{found[1]}'"
    if found := _VERSIONS.search(text):
        return f"is Python {found[1]}, but the driver's is {found[2]}"
    return "does not exist" if _NO_PROGRAM.search(text) else None


def _place(context: SparkContext, group: str) -> str:
    """Returns where a job's first task has failed: Spark raises only the Python worker's message."""
    with suppress(Py4JError, OSError):  # the JVM is too busy, or gone
        return next(failed_tasks(context, group), "")
    return ""
