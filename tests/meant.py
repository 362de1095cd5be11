"""What each Spark and TensorFlow makes of the same: expectations of tests that run on several, by `make matrix`.

Only here do tests ask which of them they run on; a test that holds on some only does not exist.
"""

from __future__ import annotations

from typing import TypeVar

import pyspark

from sparktf.process.supported import installed_servers_complaint

Expected = TypeVar("Expected")

_VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))


def meant(now: Expected, *, before_4: Expected) -> Expected:
    """Returns what is expected of this process's Spark: from 4.0, or before that."""
    return now if _VERSION >= (4, 0) else before_4


def meant_since_4_1(now: Expected, *, before: Expected) -> Expected:
    """Returns what is expected of this process's Spark: from 4.1, or before that."""
    return now if _VERSION >= (4, 1) else before


RUNS_SERVERS = installed_servers_complaint() is None
"""Whether this environment's TensorFlow runs parameter servers; others refuse them by name."""
