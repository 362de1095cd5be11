"""What is told of executors whose Python cannot run our code, by what Spark says."""

from __future__ import annotations

import pytest

from sparktf.driver.spark.executor_python import unfit_by_words
from sparktf.driver.spark.feeders import explained
from sparktf.errors import DataError, PreflightError

MISSING = """\

  An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named 'numpy'
"""


@pytest.mark.parametrize(
    ("text", "python", "place", "told"),
    [
        (
            MISSING,
            "python3",
            "node7 (executor 2)",
            r"^the executors' Python, python3 on node7 \(executor 2\), has no module 'numpy'; PYSPARK_PYTHON is not ",
        ),
        (
            MISSING,
            "/usr/bin/python3.11",
            "",
            r"^the executors' Python, /usr/bin/python3.11, .*; PYSPARK_PYTHON is /usr/bin/",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "python3",
            "",
            r"is Python 3\.9, but the driver's is 3\.11; PYSPARK_PYTHON is not set: set it to a Python that has",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py": error=2',
            "/opt/py",
            "",
            r"^the executors' Python, /opt/py, does not exist; ",
        ),
    ],
)
def test_interpreter_host_and_setting_are_named(text: str, python: str, place: str, told: str) -> None:
    error = unfit_by_words(text, python, place)
    assert isinstance(error, PreflightError)
    with pytest.raises(PreflightError, match=told):
        raise error


@pytest.mark.parametrize("text", ["Python worker exited unexpectedly (crashed)", "ImportError: cannot import name x"])
def test_what_another_try_may_mend_is_not(text: str) -> None:
    assert unfit_by_words(text, "python3") is None


def test_nor_is_it_the_datas_fault() -> None:
    assert isinstance(explained(ValueError(MISSING)), PreflightError)
    assert isinstance(explained(ValueError("ValueError: no number: 'x'")), DataError)
