"""Gates between TensorFlow's executions and each worker, and placeholder servers for workers that are missing."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import tensorflow as tf

from sparktf.trainer.parameter_server.membership.seats import Call
from sparktf.wire.control import WorkerPlace


class Door:
    """A gate that TensorFlow's thread for one worker passes with each execution; open at first.

    Attributes:
        place: The worker that TensorFlow calls.
        call: The execution in progress, if any.
    """

    def __init__(self, place: WorkerPlace, worker: Any, queue: Any) -> None:
        """Wraps TensorFlow's object of a worker; `queue` is TensorFlow's queue of closures for any worker."""
        self.place = place
        self.call: Call | None = None
        self._broken_off: Counter[int] = Counter()
        self._execute = worker._process_closure
        self._queue = queue
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._closure: Any = None
        worker._process_closure = self._pass

    @property
    def is_open(self) -> bool:
        """Whether executions go through."""
        return self._open.is_set()

    def close(self) -> None:
        """Leaves all further executions to other workers; one may still be in progress."""
        with self._lock:
            self._open.clear()

    def open(self) -> None:
        """Lets executions through again."""
        self._open.set()

    def note(self, call: Call, gone_s: float | None) -> None:
        """Notes since when the worker of a call is gone, if the call is still in progress."""
        with self._lock:
            if self.call is call:
                self.call = call._replace(gone_s=gone_s)

    @property
    def broken_off(self) -> dict[int, int]:
        """Number of executions that broke off on this worker, by incarnation."""
        with self._lock:
            return dict(self._broken_off)

    def note_put_back(self, closure: Any) -> None:
        """Notes that TensorFlow requeues a closure: if it ran here, it broke off."""
        with self._lock:
            if closure is self._closure and self.call is not None:
                self._broken_off[self.call.place.incarnation] += 1

    def _pass(self, closure: Any) -> None:
        with self._lock:
            goes = self.is_open
            self.call = Call(self.place) if goes else None
            self._closure = closure if goes else None
        if goes:
            try:
                self._execute(closure)
            finally:
                with self._lock:
                    self.call = self._closure = None
            return
        self._queue.put_back(closure)
        self._open.wait()


class StandIns:
    """Placeholder servers: TensorFlow needs a server that answers at each worker's address.

    They run in this process, so that none is lost before it, and make no updates. TensorFlow cannot stop a server.
    """

    def __init__(self, host: str) -> None:
        """Starts none yet; `host` is the name by which others reach this process."""
        self._host = host
        self._servers: list[Any] = []

    def start(self, index: int) -> str:
        """Starts a server for a worker at a free port; returns its address."""
        addresses = {"worker": {index: f"{self._host}:0"}}
        server = tf.distribute.Server(addresses, job_name="worker", task_index=index, protocol="grpc")
        self._servers.append(server)
        return f"{self._host}:{server.target.rpartition(':')[2]}"
