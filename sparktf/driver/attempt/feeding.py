"""Has Spark feed the epochs that an attempt wants, one at a time for each stream, and closes the books after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sparktf.driver.attempt.attempt import Attempt
from sparktf.errors import SparkTFError
from sparktf.sequence import Stream


class Feeders(Protocol):
    """Feeders at work on one stream in one epoch."""

    def splits(self) -> int | None:
        """Returns the number of partitions, None while feeding. Raises `SparkTFError` if Spark has given up."""

    def cancel(self) -> None:
        """Ends all that still run, without waiting for them."""


class FeedJob(NamedTuple):
    """A stream in an epoch that Spark is to feed."""

    stream: Stream
    epoch: int
    turn: int = 0  # See `sparktf.wire.data.Span`
    generation: int = 1  # Likewise


class Feeding:
    """The feeders of one attempt, for the driver's watching thread alone."""

    def __init__(self, attempt: Attempt, start: Callable[[FeedJob], Feeders]) -> None:
        """Starts nothing yet; `start` has Spark feed a stream in an epoch."""
        self._attempt = attempt
        self._start = start
        self._feeders: dict[FeedJob, Feeders] = {}

    def start_wanted(self) -> None:
        """Starts the wanted feeders, without the attempt's lock, once every node takes rows: one may be sent to any."""
        if self._attempt.fed.ledger is None or not self._attempt.fed.ledger.is_ready:
            return
        wanted, self._attempt.fed.wanted = self._attempt.fed.wanted, []
        for stream, epoch in dict.fromkeys(wanted):
            book = self._attempt.fed.ledger.book(stream, epoch)
            job = FeedJob(stream, epoch, book.turn, book.generation)
            self._cancel_before(job)
            self._feeders[job] = self._start(job)

    def settle(self) -> SparkTFError | None:
        """Closes ended feeders' books, under the attempt's lock; wants lost rows again; returns why a feeder failed."""
        ledger = self._attempt.fed.ledger
        for job, feeders in list(self._feeders.items()):
            if ledger is None or ledger.book(job.stream, job.epoch).generation > job.generation:
                continue  # refused from now on, and cancelled next
            try:
                splits = feeders.splits()
                if splits is None:
                    continue
                del self._feeders[job]
                ledger.end(job.stream, job.epoch, splits)
            except SparkTFError as e:
                self._feeders.pop(job, None)
                return e
        try:
            self._attempt.fed.feed_again()
        except SparkTFError as e:
            return e
        return None

    def _cancel_before(self, job: FeedJob) -> None:
        """Ends the feeders of an epoch that bring it to an earlier generation of the gang."""
        for other in list(self._feeders):
            if (other.stream, other.epoch) == (job.stream, job.epoch) and other.generation < job.generation:
                self._feeders.pop(other).cancel()

    def cancel(self) -> None:
        for feeders in self._feeders.values():
            feeders.cancel()
        self._feeders.clear()
