"""The untrained rows of an epoch that Spark feeds, where workers train as they go.

Only the nodes know which of them has which rows: one that has run dry takes some from another. This book makes sure
that each row is trained once: a receipt counts only rows of a sealed split that no earlier receipt contains.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparktf.driver.attempt.rows.leases import LeasedIntervals, Lessee
from sparktf.errors import RowAccountingError
from sparktf.feed.channel.held import SPLIT_SPAN, within
from sparktf.sequence import Interval, remaining


class StagedLeases:
    """The rows of one epoch. Not thread-safe.

    Attributes:
        left: Rows of sealed splits that are not trained.
    """

    def __init__(self, done: Sequence[Interval]) -> None:
        """Begins without splits; `done` are intervals of the epoch's sequence that were trained before."""
        self.left = 0
        self._done = tuple(done)
        self._rows: dict[int, int] = {}
        self._untrained = LeasedIntervals()

    def add(self, split: int, rows: int) -> None:
        """Notes a split that is wholly with a worker; a retried feeder may seal it again."""
        if split in self._rows:
            return
        self._rows[split] = rows
        first = split * SPLIT_SPAN
        for start, stop in remaining(rows, within(self._done, split)):
            self._untrained.put(first + start, first + stop)
            self.left += stop - start

    def fetched(self, lessee: Lessee, intervals: Sequence[Interval]) -> int:
        """Notes the rows that an incarnation has trained; returns their number.

        Raises:
            RowAccountingError: Spark has not fed them, or they are trained already.
        """
        rows = 0
        for start, stop in intervals:
            if not self._untrained.remove(start, stop):
                split, row = divmod(start, SPLIT_SPAN)
                raise RowAccountingError(
                    f"{lessee} has trained rows [{row}, {row + stop - start}) of partition {split}, which Spark has "
                    "not fed or which were trained before"
                )
            rows += stop - start
        self.left -= rows
        return rows

    def missing(self) -> set[int]:
        """Returns the splits with untrained rows."""
        return {start // SPLIT_SPAN for start, _ in self._untrained.intervals}

    def done(self, split: int) -> list[Interval]:
        """Returns the trained intervals of a split, numbered in the epoch's sequence."""
        first = split * SPLIT_SPAN
        left = within(self._untrained.between(first, first + SPLIT_SPAN), split)
        return [(first + start, first + stop) for start, stop in remaining(self._rows.get(split, 0), left)]
