"""Has Spark feed the epochs that an attempt wants, one at a time for each stream, and closes the books after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sparktf.driver.attempt.attempt import Attempt
from sparktf.errors import SparkTFError
from sparktf.sequence import Stream


class Feeders(Protocol):
    """Feeders at work on one stream in one epoch."""

    def splits(self) -> int | None:
        """Returns the number of partitions, None while feeding. Raises `SparkTFError` if Spark has given up."""

    def cancel(self) -> None:
        """Ends all that still run, without waiting for them."""


class Feeding:
    """The feeders of one attempt, for the driver's watching thread alone."""

    def __init__(self, attempt: Attempt, start: Callable[[Stream, int, int], Feeders]) -> None:
        """Starts nothing yet.

        Args:
            start: Has Spark feed a stream in an epoch, for the given turn (`sparktf.wire.data.Span`).
        """
        self._attempt = attempt
        self._start = start
        self._feeders: dict[tuple[Stream, int], Feeders] = {}

    def start_wanted(self) -> None:
        """Starts the wanted feeders, without the attempt's lock, once every node takes rows: one may be sent to any."""
        if self._attempt.fed.ledger is None or not self._attempt.fed.ledger.is_ready:
            return
        wanted, self._attempt.fed.wanted = self._attempt.fed.wanted, []
        for stream, epoch in wanted:
            self._feeders[stream, epoch] = self._start(stream, epoch, self._attempt.fed.ledger.book(stream, epoch).turn)

    def settle(self) -> SparkTFError | None:
        """Closes ended feeders' books, under the attempt's lock; wants lost rows again; returns why a feeder failed."""
        ledger = self._attempt.fed.ledger
        for (stream, epoch), feeders in list(self._feeders.items()):
            try:
                splits = feeders.splits()
                if splits is None or ledger is None:
                    continue
                del self._feeders[stream, epoch]
                ledger.end(stream, epoch, splits)
            except SparkTFError as e:
                self._feeders.pop((stream, epoch), None)
                return e
        try:
            self._attempt.fed.feed_again()
        except SparkTFError as e:
            return e
        return None

    def cancel(self) -> None:
        for feeders in self._feeders.values():
            feeders.cancel()
        self._feeders.clear()
