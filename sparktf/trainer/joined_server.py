"""Whether a node's function serves others: it is within `join()` of one of TensorFlow's servers, which never returns.

TensorFlow is not imported for this: a function that has not imported it has no server.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import CodeType
from typing import Literal

_SERVERS = {
    "tensorflow.python.training.server_lib": ("Server",),
    "tensorflow.python.data.experimental.service.server_lib": ("DispatchServer", "WorkerServer"),
}
"""Module -> its classes of servers."""


def phase() -> Literal["training", "serving"]:
    """Returns the phase of the process's main thread, for the driver; from any thread."""
    joins = set(_joins())
    frame = sys._current_frames().get(threading.main_thread().ident or 0) if joins else None
    while frame is not None:
        if frame.f_code in joins:
            return "serving"
        frame = frame.f_back
    return "training"


def _joins() -> Iterator[CodeType]:
    """Yields the code of each server's `join`, of modules that are loaded."""
    for module, classes in _SERVERS.items():
        for name in classes:
            join = getattr(getattr(sys.modules.get(module), name, None), "join", None)
            if (code := getattr(join, "__code__", None)) is not None:
                yield code
