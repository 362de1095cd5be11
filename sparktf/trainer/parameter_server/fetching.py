"""Executions on the workers: how they are sent out, and what comes back of them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.knobs import KNOBS

_PASSING = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InvalidArgumentError)
"""What fetching raises of a worker that is gone, although its execution is made again elsewhere."""


class ExecutionResult(NamedTuple):
    """What has come of one execution.

    Attributes:
        number: As it was sent out.
        value: What the function has returned.
    """

    number: int
    value: Any


class Executions:
    """Sends out executions, and waits for each in a thread: none holds up those that end before it."""

    def __init__(self, coordinator: Any, *, threads: int, patience_s: float) -> None:
        """Sends nothing yet.

        Args:
            coordinator: TensorFlow's, of the workers.
            threads: So many are under way at most.
            patience_s: One may be made again and again for so long.
        """
        self._coordinator = coordinator
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="fetch")
        self._came: queue.SimpleQueue[ExecutionResult | BaseException] = queue.SimpleQueue()

    def send(self, number: int, function: Any, arguments: tuple[Any, ...]) -> None:
        """Has some worker execute a function.

        Raises:
            Exception: what an execution before has failed with, for good.
        """
        remote = self._coordinator.schedule(function, args=arguments)
        self._threads.submit(self._wait, number, remote)

    def next(self, wait_s: float) -> ExecutionResult | None:
        """Returns what has come next, None where nothing comes for so long.

        Raises:
            Exception: what an execution has failed with, for good.
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
        """Returns what has failed; TensorFlow then cancels all other executions, and these may be heard of earlier."""
        until_s = time.monotonic() + KNOBS.cancelled_s
        while isinstance(error, tf.errors.CancelledError) and (left_s := until_s - time.monotonic()) > 0:
            try:
                came = self._came.get(timeout=left_s)
            except queue.Empty:
                break
            error = came if isinstance(came, BaseException) else error
        return error


def fetch(remote: Any, raise_failure: Callable[[], object], until_s: float) -> Any:
    """Returns the value of an execution, once it is here.

    Args:
        remote: The `RemoteValue`.
        raise_failure: Raises what the executions have failed with, if they have.
        until_s: When it is given up, by the monotonic clock.

    Raises:
        OpError: it could not be fetched until then, or some execution has failed for good.
    """
    while True:
        try:
            return remote.fetch()
        except _PASSING:
            raise_failure()
            if time.monotonic() >= until_s:
                raise
        time.sleep(KNOBS.fetch_again_s)
