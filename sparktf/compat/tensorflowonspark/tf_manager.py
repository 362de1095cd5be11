"""TensorFlowOnSpark's queues, in one process: what a program's own tests put rows into for its function."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

from sparktf.compat.tensorflowonspark.tf_inside import inside_names
from sparktf.compat.tensorflowonspark.tf_marker import EndPartition


class TFManager:
    """Queues and values by their names."""

    def __init__(self, queues: Sequence[str]) -> None:
        """Makes empty queues."""
        self._queues: dict[str, queue.Queue[Any]] = {name: queue.Queue() for name in queues}
        self._values: dict[str, Any] = {}

    def get_queue(self, qname: str) -> queue.Queue[Any] | None:
        """Returns a queue; None if there is none of that name."""
        return self._queues.get(qname)

    def get(self, key: str) -> Any:
        """Returns a value. Raises `KeyError` if it was not set."""
        return self._values[key]

    def set(self, key: str, value: Any) -> None:
        """Sets a value."""
        self._values[key] = value

    def shutdown(self) -> None:
        """Does nothing: there is no process to end."""


def start(authkey: bytes, queues: Sequence[str], mode: str = "local") -> TFManager:
    """Returns new queues, of this process alone: nobody can connect to them, with or without a key."""
    del authkey, mode
    return TFManager(queues)


class QueuedRows:
    """The rows of a queue, as `DataFeed` takes them: None is the end of all, `EndPartition` that of a partition.

    Attributes:
        is_over: Whether the end has come.
    """

    def __init__(self, manager: Any, qname_in: str, qname_out: str, *, train_mode: bool) -> None:
        """Takes what has queues: a `TFManager`, or TensorFlowOnSpark's own.

        Args:
            train_mode: Whether batches go across partitions.
        """
        self._manager = manager
        self._rows = manager.get_queue(qname_in)
        self._results = manager.get_queue(qname_out)
        self._train_mode = train_mode
        self.is_over = False

    def take(self, count: int) -> list[Any]:
        """Waits for `count` rows and returns them; fewer at the end, also at a partition's where results are wanted."""
        found: list[Any] = []
        while len(found) < count and not self.is_over:
            row = self._rows.get()
            self._rows.task_done()
            if row is None:
                self.is_over = True
            elif not isinstance(row, EndPartition):
                found.append(row)
            elif found and not self._train_mode:
                break
        return found

    def answer(self, results: list[Any]) -> None:
        """Puts results into their queue."""
        for result in results:
            self._results.put(result)

    def terminate(self) -> None:
        """Drops the rows that are there, and says that no more are wanted."""
        self._manager.set("state", "terminating")
        while not self._rows.empty():
            self._rows.get()
            self._rows.task_done()


globals().update(inside_names("TFManager"))
