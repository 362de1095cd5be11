"""The free rows of an epoch, and which of them a worker gets next; by columns, as in `driver/plan`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sparktf.driver.plan.locality import Groups, ranges
from sparktf.sequence import Integers, Slices

_AT_ONCE = 256
"""Slices of a queue looked at together."""
_CUTS = 16
"""The most leases of one block: reading a part of a shuffled block means reading all of it."""


class BlockLayout(NamedTuple):
    """How blocks lie on the hosts of the workers."""

    block_rows: Integers  # int64 [n_blocks]
    hosts: tuple[int, ...]  # The plan's numbers of them
    local: Groups  # For each block, those of the `hosts` that store it


@dataclass(slots=True)
class Wanted:
    """The rows that a worker is still to get."""

    rows: int  # About how many
    most: int  # The most rows, except that the smallest part of a block may exceed it
    found: list[Slices] = field(default_factory=list)  # The slices that it gets

    def add(self, found: Slices) -> None:
        rows = int(found.rows.sum())
        self.rows, self.most = self.rows - rows, self.most - rows
        self.found.append(found)

    def end(self) -> None:
        self.rows = 0


class Unleased:
    """Free slices in queues: one for each host with the slices stored there, and one for slices stored on no host.

    A slice is in the queue of each of its hosts. Workers on that host take from the front of a queue, others from its
    back.

    Attributes:
        rows: Of all of them.
    """

    def __init__(self, slices: Slices, layout: BlockLayout, batch_rows: int) -> None:
        """Takes slices in the order of the epoch; parts of blocks consist of whole updates of `batch_rows` rows."""
        self.rows = int(slices.rows.sum())
        self._slices = Slices(*(column.copy() for column in slices))  # cut slices get shorter
        self._layout = layout
        self._batch_rows = batch_rows
        self._taken = np.zeros(len(slices.block), bool)
        queue, chosen = self._queues_of(np.arange(len(slices.block)))
        hosts = len(layout.hosts)
        self._queue_of_host = {host: queue for queue, host in enumerate(layout.hosts)}
        order = np.argsort(queue.astype(np.min_scalar_type(hosts)), kind="stable")
        self._queues = Groups.of(queue[order], chosen[order], hosts + 1)
        self._front, self._back = self._queues.starts[:-1].copy(), self._queues.starts[1:].copy()
        self._left = np.zeros(hosts + 1, np.int64)
        np.add.at(self._left, queue, slices.rows[chosen])

    def lease_beside(self, host: int, wanted: Wanted) -> None:
        """Gives slices that are stored on a host, by the plan's number of it."""
        if host in self._queue_of_host:
            self._take(self._queue_of_host[host], wanted)

    def lease_elsewhere(self, wanted: Wanted) -> None:
        """Gives slices that are stored on no worker's host, then those of the hosts with most left."""
        self._take(len(self._layout.hosts), wanted)
        while wanted.rows > 0 and self.rows:
            self._take(int(self._left.argmax()), wanted, from_back=True)

    def with_more(self, slices: Slices) -> Unleased:
        rest = self._slices.take(np.flatnonzero(~self._taken))
        both = joined_slices([rest, slices])
        return Unleased(both.take(np.argsort(both.first_row)), self._layout, self._batch_rows)

    def _take(self, queue: int, wanted: Wanted, *, from_back: bool = False) -> None:
        while wanted.rows > 0 and len(run := self._open(queue, from_back=from_back)):
            ends = np.cumsum(self._slices.stop[run] - self._slices.start[run])
            count = min(int(np.searchsorted(ends, wanted.rows)) + 1, len(run))
            fits = bool(ends[count - 1] <= wanted.most)
            whole = run[: count if fits else count - 1]
            if len(whole):
                wanted.add(self._all_of(whole))
            if not fits:
                self._take_part(int(run[count - 1]), wanted)

    def _take_part(self, chosen: int, wanted: Wanted) -> None:
        """Gives the first rows of a slice; none if that were too few, and others are found already."""
        batch = self._batch_rows
        least = max(-(-int(self._layout.block_rows[self._slices.block[chosen]]) // _CUTS), batch)
        if not wanted.found or wanted.most >= least:
            rows = -(-max(wanted.most, least) // batch) * batch
            has = int(self._slices.stop[chosen] - self._slices.start[chosen])
            wanted.add(self._all_of(np.array([chosen])) if has - rows < batch else self._first_of(chosen, rows))
        wanted.end()

    def _open(self, queue: int, *, from_back: bool) -> Integers:
        """Returns the next slices of a queue that are not taken, and skips those that are."""
        front, back = int(self._front[queue]), int(self._back[queue])
        while front < back:
            seen = slice(max(front, back - _AT_ONCE), back) if from_back else slice(front, min(front + _AT_ONCE, back))
            members = self._queues.values[seen]
            places = np.flatnonzero(~self._taken[members])
            if len(places):
                if from_back:
                    self._back[queue] = seen.start + int(places[-1]) + 1
                    return members[places][::-1]
                self._front[queue] = seen.start + int(places[0])
                return members[places]
            if from_back:
                self._back[queue] = back = seen.start
            else:
                self._front[queue] = front = seen.stop
        return np.empty(0, np.int64)

    def _all_of(self, chosen: Integers) -> Slices:
        found = self._slices.take(chosen)
        self._taken[chosen] = True
        self._subtract(chosen, found.rows)
        return found

    def _first_of(self, chosen: int, rows: int) -> Slices:
        one, columns = np.array([chosen]), self._slices
        found = columns.cut(one, np.zeros(1, np.int64), np.array([rows]))
        columns.start[chosen] += rows
        columns.first_row[chosen] += rows
        self._subtract(one, found.rows)
        return found

    def _subtract(self, chosen: Integers, rows: Integers) -> None:
        self.rows -= int(rows.sum())
        queue, of = self._queues_of(chosen)
        np.subtract.at(self._left, queue, rows[of])

    def _queues_of(self, chosen: Integers) -> tuple[Integers, Integers]:
        """Returns (queue, index among the chosen) for each occurrence of a slice; in each queue by index."""
        block, places = self._slices.block[chosen], np.arange(len(chosen))
        local, nowhere = self._layout.local, len(self._layout.hosts)
        first = local.starts[block]
        count = local.starts[block + 1] - first
        homeless = places[count == 0]
        queue = np.concatenate([local.values[ranges(first, count)], np.full(len(homeless), nowhere)])
        return queue, np.concatenate([np.repeat(places, count), homeless])


def joined_slices(found: Iterable[Slices]) -> Slices:
    none = Slices(*(np.empty(0, np.int64) for _ in Slices._fields))
    return Slices(*(np.concatenate(columns) for columns in zip(none, *found, strict=True)))
