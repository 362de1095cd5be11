"""What is to be written for an attempt, on a thread of its own: whoever watches never waits for the storage."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from sparktf.clock import Clock


class Writer:
    """Does one piece of work after another, in the order in which they are put, beside whoever puts them.

    Once one has raised, no other is begun.
    """

    def __init__(self, clock: Clock, changed: threading.Condition) -> None:
        """Begins nothing yet.

        Args:
            changed: Its lock, which nobody holds while work is done; notified when nothing is left.
        """
        self._clock = clock
        self._changed = changed
        self._waiting: deque[Callable[[], None]] = deque()
        self._under_way = False
        self._error: Exception | None = None

    def put(self, work: Callable[[], None]) -> None:
        """Has some work done when all before it is."""
        with self._changed:
            if self._error is not None:
                return
            self._waiting.append(work)
            idle, self._under_way = not self._under_way, True
        if idle:
            self._clock.beside("commits", self._run)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way or waits."""
        with self._changed:
            return not self._under_way

    def check(self) -> None:
        """Raises what a piece of work has raised, if one has."""
        with self._changed:
            error = self._error
        if error is not None:
            raise error

    def drop(self) -> None:
        """Forgets what has not begun."""
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
