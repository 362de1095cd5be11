"""Whether what Spark streams to a Python worker has ended, or has broken off: Arrow's reader takes one for the other.

When the plan above a Python function fails, when its task is killed, or its executor dies, the JVM closes the worker's
connection, often between two record batches. The iterator of batches then ends as if all had come.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from types import FrameType
from typing import TypeVar

from sparktf.errors import ControlError, LifecycleError

_T = TypeVar("_T")


def whole(batches: Iterable[_T]) -> Iterator[_T]:
    """Passes on what Spark streams to the worker that calls this.

    Raises:
        ControlError: Spark has broken it off.
        LifecycleError: this is no worker of Spark.
    """
    return unbroken(batches, _connection())


def unbroken(batches: Iterable[_T], connection: int) -> Iterator[_T]:
    """Passes on what comes over a socket, and raises `ControlError` if its end is that of the connection."""
    yield from batches
    if _is_over(connection):
        raise ControlError("Spark broke off the partition")


def _is_over(connection: int) -> bool:
    """Whether the other side has closed. After a true end it has not: it waits for the worker's answer."""
    with closing(socket.socket(fileno=os.dup(connection))) as peeked:
        try:
            return not peeked.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


def _connection() -> int:
    """Returns the descriptor of this worker's connection to its JVM, which PySpark keeps to itself."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") == "pyspark.worker":
            descriptor: int = frame.f_locals["infile"].fileno()
            return descriptor
        frame = frame.f_back
    raise LifecycleError("a feeder runs in a Python worker of Spark")
