"""A worker's input of one epoch under parameter servers: rows are handed out in takes, and each gets a receipt.

The coordinator counts only receipts. An execution that took rows may break off at any point while its worker lives on:
then these rows are handed out again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sparktf.feature import FeedSpec
from sparktf.feed.arrays.aside import Handed
from sparktf.feed.arrays.columns import Columns, empty_columns, row_count, slice_rows
from sparktf.feed.pipeline import NodeFeed
from sparktf.feed.receipts import Receipts, Trained
from sparktf.results.result import NodeInput
from sparktf.sequence import Interval, merge


class Take(NamedTuple):
    """Rows for one execution."""

    number: int  # Marks them as trained; 0 if there are none
    columns: Columns
    rows: int
    drained: bool  # No further rows will come
    dry: bool = False  # Other workers have all rows that are left: none can come for the moment


class Out(NamedTuple):
    """A take that is not marked yet."""

    number: int
    rows: int


class LeasedFeed:
    """Hands out rows, and makes a receipt of each trained take; thread-safe.

    One take is out at a time: if it is not marked when the next one is asked for, it was broken off.

    Attributes:
        epoch: The epoch of the rows.
        covered: Rows with a receipt: trained ones, and those set aside between them.
    """

    def __init__(
        self,
        epoch: int,
        spec: FeedSpec,
        feed: NodeFeed,
        receipts: Receipts,
        *,
        batch_rows: int,
        meter: FeedMeter | None = None,
        expect: Callable[[int], None] = lambda rows: None,
    ) -> None:
        """Hands out nothing yet.

        Args:
            batch_rows: Rows of an update.
            expect: Called before each take with the most rows that it may have.
            meter: Measures the input. Default: that of a feed that reads files.
        """
        self.epoch = epoch
        self.covered = 0
        self._spec = spec
        self._feed = feed
        self._receipts = receipts
        self._batch_rows = batch_rows
        self._expect = expect
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._held: Columns = {}  # handed out, and not marked
        self._doubtful = 0  # how many of these may be trained
        self._out: Out | None = None
        self._trail = Trail()
        self._meter = meter or FeedMeter(feed)

    def take(self, updates: int, wait_s: float) -> Take:
        """Returns rows for at most `updates` updates: first those of broken-off takes.

        It waits up to `wait_s`, at the end of the epoch, too, which prevents callers from busy waiting.

        Raises:
            DataError: a value or file is refused.
            StorageError: a file system failed.
        """
        until_s = time.monotonic() + wait_s
        with self._lock:
            taken = self._take(updates * self._batch_rows, wait_s)
        if taken.drained:
            self._closed.wait(max(until_s - time.monotonic(), 0.0))
        return taken

    def _take(self, rows: int, wait_s: float) -> Take:
        again = row_count(self._held) > 0
        if not again and not self._closed.is_set():
            self._expect(rows)
            self._held = self._feed.take_now(rows, wait_s, batch_rows=self._batch_rows)
        if self._out is not None:
            self._doubtful = max(self._doubtful, self._out.rows)
        n = min(row_count(self._held), rows)
        if n:
            self._out = Out(next(self._receipts.takes), n)
            return Take(self._out.number, slice_rows(self._held, 0, n), n, drained=False)
        self._out = None
        if not again:
            self._mark(0, replayed=0, loss=0.0)
        drained = not again and (self._closed.is_set() or self._feed.is_drained)
        dry = drained or (not again and self._feed.is_dry)
        return Take(0, empty_columns(self._spec.features), 0, drained, dry)

    def done(self, take: int, loss: float, rows: int | None = None, metrics: tuple[float, ...] = ()) -> Trained | None:
        """Marks a take as trained; returns its receipt, None if it was handed out again since, or there is none.

        Args:
            loss: Sum over its rows.
            rows: Number of trained rows, by default all; the others are certainly not trained, and come next.
            metrics: What its rows add to the states of the metrics.
        """
        with self._lock:
            if self._out is None or self._out.number != take:
                return None
            rows = self._out.rows if rows is None else rows
            doubtful, self._out, self._doubtful = min(self._doubtful, rows), None, max(self._doubtful - rows, 0)
            left = row_count(self._held) - rows
            self._held = slice_rows(self._held, rows, rows + left) if left else {}
            return self._mark(rows, replayed=doubtful, loss=loss, metrics=metrics)

    def close(self) -> None:
        """Ends reading; hands out nothing more."""
        with self._lock:
            self._closed.set()
            self._held, self._out, self._doubtful = {}, None, 0
            self._feed.stop()

    def _mark(self, rows: int, *, replayed: int, loss: float, metrics: tuple[float, ...] = ()) -> Trained | None:
        """Makes a receipt of the next rows handed out, and of those set aside between them."""
        self._trail.extend(self._feed.handed_since(self._trail.parts))
        intervals = self._trail.follow(rows)
        if not intervals:
            return None
        covered = sum(stop - start for start, stop in intervals)
        trained = Trained(
            epoch=self.epoch,
            steps=-(-rows // self._batch_rows),
            intervals=intervals,
            rows=rows,
            rows_aside=covered - rows,
            replayed=replayed,
            loss=loss,
            metrics=metrics,
            input=self._meter.read(covered),
        )
        self._receipts.add(trained)
        self.covered += covered
        return trained


class Trail:
    """Turns rows, in the order in which they are handed out, into intervals of the epoch sequence; counts `parts`."""

    def __init__(self) -> None:
        self.parts = 0
        self._parts: deque[Handed] = deque()
        self._good = self._covered = 0  # of the first one

    def extend(self, parts: Iterable[Handed]) -> None:
        """Adds parts that are handed out next."""
        before = len(self._parts)
        self._parts.extend(parts)
        self.parts += len(self._parts) - before

    def follow(self, rows: int) -> list[Interval]:
        """Returns the intervals that the next `rows` rows cover, including rows set aside between them."""
        found: list[Interval] = []
        while self._parts:
            part = self._parts[0]
            good = min(self._good + rows, part.good)
            covered = part.covered(good)
            if covered > self._covered:
                found.append((part.first_row + self._covered, part.first_row + covered))
            rows -= good - self._good
            self._good, self._covered = good, covered
            if good < part.good:
                break
            self._parts.popleft()
            self._good = self._covered = 0
        return merge(found)


class FeedMeter:
    """Measures the input of a feed since the last look."""

    def __init__(self, feed: NodeFeed, came: Callable[[], NodeInput] | None = None) -> None:
        """Begins now; `came` returns the input that feeders have brought, if they do."""
        self._feed = feed
        self._came = came
        self._seen = NodeInput()
        self._rows = 0
        self._began_s = time.monotonic()

    def read(self, rows: int) -> NodeInput:
        """Returns the input since the last call, which has brought `rows` rows."""
        feed = self._feed
        self._rows += rows
        read = NodeInput(rows={"direct": self._rows}, nbytes=feed.nbytes, local_nbytes=feed.local_nbytes)
        if self._came is not None:
            read = self._came()
        now = read.model_copy(update={"wait_s": feed.wait_s, "seconds": time.monotonic() - self._began_s})
        since = now.since(self._seen)
        self._seen = now
        return since
