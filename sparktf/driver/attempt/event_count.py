"""A count of events that threads wait for."""

from __future__ import annotations

import threading


class EventCount:
    """Counts events; who waits for the next one misses none that comes after its look at the number; thread-safe.

    As of Reed and Kanodia, "Synchronization with eventcounts and sequencers", 1979.
    """

    def __init__(self) -> None:
        """Begins at 0."""
        self._counted = threading.Condition()
        self._number = 0

    def read(self) -> int:
        """Returns the number of events so far."""
        return self._number

    def advance(self) -> None:
        """Counts an event, and wakes all who wait."""
        with self._counted:
            self._number += 1
            self._counted.notify_all()

    def await_after(self, number: int, limit_s: float) -> bool:
        """Waits until more than `number` events are counted, at most `limit_s`; returns whether they are."""
        with self._counted:
            return self._counted.wait_for(lambda: self._number > number, limit_s)
