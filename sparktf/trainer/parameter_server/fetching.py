"""Sends executions to the workers, and fetches their results."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.knobs import KNOBS

_PASSING = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InvalidArgumentError)
"""Errors of fetching from a lost worker, although its execution is run again elsewhere."""


class ExecutionResult(NamedTuple):
    """The number of an execution, and the value that its function returned."""

    number: int
    value: Any


class Executions:
    """Sends executions, and waits for each in its own thread, so that none delays those that end before it."""

    def __init__(self, coordinator: Any, *, threads: int, patience_s: float) -> None:
        """Sends nothing yet.

        Args:
            coordinator: TensorFlow's `ClusterCoordinator`.
            threads: The most executions in flight.
            patience_s: The longest time for which an execution is repeated.
        """
        self._coordinator = coordinator
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="fetch")
        self._came: queue.SimpleQueue[ExecutionResult | BaseException] = queue.SimpleQueue()

    def send(self, number: int, function: Any, arguments: tuple[Any, ...]) -> None:
        """Schedules a function on any worker.

        Raises:
            Exception: the final error of an earlier execution.
        """
        remote = self._coordinator.schedule(function, args=arguments)
        self._threads.submit(self._wait, number, remote)

    def next(self, wait_s: float) -> ExecutionResult | None:
        """Returns the next result; None if none comes in time.

        Raises:
            Exception: the final error of an execution.
        """
        try:
            came = self._came.get(wait_s > 0, wait_s or None)
        except queue.Empty:
            return None
        if isinstance(came, BaseException):
            raise self._cause(came)
        return came

    def _wait(self, number: int, remote: Any) -> None:
        try:
            value = fetch(remote, self._coordinator.done, time.monotonic() + self._patience_s)
            self._came.put(ExecutionResult(number, value))
        except BaseException as error:  # noqa: BLE001 - the end of a thread: `next` raises it where it is waited for
            self._came.put(error)

    def _cause(self, error: BaseException) -> BaseException:
        """Returns the root cause: TensorFlow cancels all other executions, and their errors may come first."""
        until_s = time.monotonic() + KNOBS.cancelled_s
        while isinstance(error, tf.errors.CancelledError) and (left_s := until_s - time.monotonic()) > 0:
            try:
                came = self._came.get(timeout=left_s)
            except queue.Empty:
                break
            error = came if isinstance(came, BaseException) else error
        return error


def fetch(remote: Any, raise_failure: Callable[[], object], until_s: float) -> Any:
    """Returns the value of an execution (a `RemoteValue`), waiting for it.

    Args:
        raise_failure: Raises the error of executions that have failed.
        until_s: Deadline by the monotonic clock.

    Raises:
        OpError: the value could not be fetched in time, or an execution has failed for good.
    """
    while True:
        try:
            return remote.fetch()
        except _PASSING:
            raise_failure()
            if time.monotonic() >= until_s:
                raise
        time.sleep(KNOBS.fetch_again_s)
