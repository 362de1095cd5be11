"""The way of TensorFlow's executions to each worker, which can be closed, and be looked at."""

from __future__ import annotations

import threading
from typing import Any

from sparktf.trainer.parameter_server.seats import Call
from sparktf.wire.control import WorkerPlace


class Door:
    """What TensorFlow's thread for a worker goes through with each execution.

    Attributes:
        place: Whom TensorFlow calls there.
        call: The execution that is under way; None while none is.
    """

    def __init__(self, place: WorkerPlace, worker: Any, queue: Any) -> None:
        """Is open.

        Args:
            worker: TensorFlow's, which sends executions to it.
            queue: TensorFlow's, of the executions that are to be made by anybody.
        """
        self.place = place
        self.call: Call | None = None
        self._execute = worker._process_closure
        self._queue = queue
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        worker._process_closure = self._pass

    @property
    def is_open(self) -> bool:
        """Whether executions go through."""
        return self._open.is_set()

    def close(self) -> None:
        """Leaves all executions to others from now on; one may still be under way."""
        with self._lock:
            self._open.clear()

    def open(self) -> None:
        """Lets executions through again."""
        self._open.set()

    def note(self, call: Call, gone_s: float | None) -> None:
        """Notes since when the worker of a call is gone, if that is still under way."""
        with self._lock:
            if self.call is call:
                self.call = call._replace(gone_s=gone_s)

    def _pass(self, closure: Any) -> None:
        with self._lock:
            goes = self.is_open
            self.call = Call(self.place) if goes else None
        if goes:
            try:
                self._execute(closure)
            finally:
                with self._lock:
                    self.call = None
            return
        self._queue.put_back(closure)
        self._open.wait()
