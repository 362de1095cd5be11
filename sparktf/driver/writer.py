"""Writes for an attempt on a thread of its own: the watching thread never waits for the storage."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from sparktf.clock import Clock


class Writer:
    """Does one piece of work after another on its own thread, in the order of `put`; begins no other after an error."""

    def __init__(self, clock: Clock, changed: threading.Condition) -> None:
        """Begins nothing yet; notifies `changed`, whose lock nobody holds during work, when nothing is left."""
        self._clock = clock
        self._changed = changed
        self._waiting: deque[Callable[[], None]] = deque()
        self._under_way = False
        self._error: Exception | None = None

    def put(self, work: Callable[[], None]) -> None:
        """Queues work, to be done when all before it is."""
        with self._changed:
            if self._error is not None:
                return
            self._waiting.append(work)
            idle, self._under_way = not self._under_way, True
        if idle:
            self._clock.beside("commits", self._run)

    @property
    def is_idle(self) -> bool:
        """Whether no work is running or queued."""
        with self._changed:
            return not self._under_way

    def check(self) -> None:
        """Raises the error of a piece of work, if there was one."""
        with self._changed:
            error = self._error
        if error is not None:
            raise error

    def drop(self) -> None:
        """Forgets the queued work."""
        with self._changed:
            self._waiting.clear()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a thread's edge: `check` raises it to whoever watches
                with self._changed:
                    self._error = error
                    self._waiting.clear()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._under_way = False
            self._changed.notify_all()
            return None
