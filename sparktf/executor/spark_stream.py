"""Distinguishes the end of a stream from Spark to a Python worker from a broken one, which Arrow's reader cannot do.

When the plan above a Python function fails, its task is killed, or its executor dies, the JVM closes the worker's
connection, often between two record batches. The iterator of batches then ends as if it were complete.
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
    """Passes on the batches that Spark streams to this worker.

    Raises:
        ControlError: the stream is broken.
        LifecycleError: this is not a Spark worker.
    """
    return unbroken(batches, _connection())


def unbroken(batches: Iterable[_T], connection: int) -> Iterator[_T]:
    """Passes on batches from a socket; raises `ControlError` if they end because the connection was closed."""
    yield from batches
    if _is_over(connection):
        raise ControlError("Spark closed the connection before the end of the partition")


def _is_over(connection: int) -> bool:
    """Whether the JVM has closed the connection. After a complete stream it has not: it waits for the answer."""
    with closing(socket.socket(fileno=os.dup(connection))) as peeked:
        try:
            return not peeked.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


def _connection() -> int:
    """Returns the descriptor of this worker's connection to its JVM, for which PySpark has no API."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") == "pyspark.worker":
            descriptor: int = frame.f_locals["infile"].fileno()
            return descriptor
        frame = frame.f_back
    raise LifecycleError("a feeder was started outside of Spark's Python worker")
