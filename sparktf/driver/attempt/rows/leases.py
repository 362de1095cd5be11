"""The rows of one epoch as workers lease them: free, leased to an incarnation, or done. The theory: `lease_books`."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparktf.driver.attempt.rows.unleased import BlockLayout, Unleased, Wanted, joined_slices
from sparktf.driver.plan.locality import Groups
from sparktf.driver.plan.plan import Plan
from sparktf.errors import RowAccountingError
from sparktf.sequence import EpochOrder, Interval, Slices, Stream, merge
from sparktf.topology import NodeId


class Lessee(NamedTuple):
    """One incarnation of a worker."""

    node: NodeId
    incarnation: int

    def __str__(self) -> str:
        return f"incarnation {self.incarnation} of {self.node}" if self.incarnation else str(self.node)


class BlockLeases:
    """The rows of one epoch. Not thread-safe."""

    def __init__(self, order: EpochOrder, todo: Sequence[Interval], layout: BlockLayout, batch_rows: int) -> None:
        """Leases nothing yet.

        Args:
            todo: The rows to train.
            batch_rows: Rows of one update.
        """
        self._order = order
        self._fresh = Unleased(order.slices(todo), layout, batch_rows)
        self._returned = Unleased(order.slices([]), layout, batch_rows)
        self._todo = self._fresh.rows
        self._held: dict[Lessee, LeasedIntervals] = {}
        self._done = 0

    @property
    def is_done(self) -> bool:
        """Whether every row is trained."""
        return self._done == self._todo

    def lease(self, lessee: Lessee, host: int, rows: int, share: float = 1.0) -> Slices:
        """Leases rows, and returns them in the order of training; none where others have leased all that is left.

        Whole blocks, those on the worker's host first. Towards the end blocks are cut: no worker gets more than half of
        its share of the rest, so that fast and slow workers finish together.

        Args:
            host: The plan's number of its host.
            rows: About how many it wants.
            share: The part of all rows that it trains at its speed: 1.0 where it is alone.
        """
        left = self._fresh.rows + self._returned.rows
        most = left if share >= 1 else math.ceil(left * share / 2)
        wanted = Wanted(min(max(rows, 1), most), most)
        pools = (self._returned, self._fresh)
        for pool in pools:
            pool.lease_beside(host, wanted)
        for pool in pools:
            pool.lease_elsewhere(wanted)
        found = joined_slices(wanted.found)
        self._held.setdefault(lessee, LeasedIntervals()).add(found)
        return found

    def fetched(self, lessee: Lessee, intervals: Sequence[Interval]) -> int:
        """Notes the rows that an incarnation has trained; returns their number.

        Raises:
            RowAccountingError: it has not leased them, or has reported them before.
        """
        held, rows = self._held.get(lessee, LeasedIntervals()), 0
        for start, stop in intervals:
            if not held.remove(start, stop):
                raise RowAccountingError(f"{lessee} has trained rows [{start}, {stop}), which it has not leased")
            rows += stop - start
        self._done += rows
        return rows

    def close(self, lessee: Lessee) -> int:
        """Takes back an incarnation's leased and untrained rows; returns their number."""
        intervals = merge(self._held.pop(lessee, LeasedIntervals()).intervals)
        if intervals:
            self._returned = self._returned.with_more(self._order.slices(intervals))
        return sum(stop - start for start, stop in intervals)


class LeasedIntervals:
    """Intervals leased by one incarnation: few, since it leases as it goes."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    @property
    def intervals(self) -> list[Interval]:
        return list(zip(self._starts, self._stops, strict=True))

    def between(self, start: int, stop: int) -> list[Interval]:
        """Returns those that begin in an interval, in order."""
        found = slice(bisect_left(self._starts, start), bisect_left(self._starts, stop))
        return list(zip(self._starts[found], self._stops[found], strict=True))

    def add(self, slices: Slices) -> None:
        """Adds rows that were not here."""
        for start, rows in zip(slices.first_row.tolist(), slices.rows.tolist(), strict=True):
            self._put(bisect_right(self._starts, start), start, start + rows)

    def put(self, start: int, stop: int) -> None:
        """Adds an interval that was not here."""
        self._put(bisect_right(self._starts, start), start, stop)

    def remove(self, start: int, stop: int) -> bool:
        """Removes the rows of an interval; returns False, and removes nothing, if they are not all here."""
        first = after = bisect_right(self._starts, start) - 1
        at = start
        while 0 <= after < len(self._starts) and self._starts[after] <= at < min(stop, self._stops[after]):
            at, after = self._stops[after], after + 1
        if start >= stop or at < stop:
            return False
        begin, end = self._starts[first], self._stops[after - 1]
        del self._starts[first:after], self._stops[first:after]
        self._put(first, stop, end)
        self._put(first, begin, start)
        return True

    def _put(self, place: int, start: int, stop: int) -> None:
        if start < stop:
            self._starts.insert(place, start)
            self._stops.insert(place, stop)


def layout_of(plan: Plan, hosts: tuple[int, ...]) -> BlockLayout:
    """Returns how the blocks of the training stream lie on some of the plan's hosts; a large plan takes a while."""
    block_rows = plan.block_rows(Stream.TRAIN)
    if not hosts:
        return BlockLayout(block_rows, hosts, Groups(np.zeros(len(block_rows) + 1, np.int64), np.empty(0, np.int64)))
    return BlockLayout(block_rows, hosts, plan.tables[Stream.TRAIN].block_hosts.local_nodes(hosts, len(block_rows)))
