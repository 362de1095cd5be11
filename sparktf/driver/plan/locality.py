"""The hosts of the planned bytes, and readers chosen by them: row groups, shuffle blocks and nodes against hosts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.sequence import Integers

NO_HOST = -1
_MAX_REPLICAS = 8
"""Hosts kept for a row group, those with most of its bytes; HDFS keeps three replicas of a block."""
_AT_ONCE = 1 << 17


class FileBlock(NamedTuple):
    """A block of a file as the file system stores it: bytes `[start, start + nbytes)`, and the hosts that hold them."""

    start: int
    nbytes: int
    hosts: tuple[str, ...]


Locate = Callable[[Sequence[str]], Mapping[str, Sequence[FileBlock]]]
"""Paths of files -> the blocks of each, by offset; files of which nothing is known are left out."""


def nowhere(files: Sequence[str]) -> Mapping[str, Sequence[FileBlock]]:
    """A `Locate` for files that are on no host in particular."""
    del files
    return {}


class Replicas(NamedTuple):
    """How much of each row group or split is on which hosts."""

    host: Integers  # int64 [n, n_replicas], index into the hosts, `NO_HOST` in unused places
    nbytes: Integers  # int64 [n, n_replicas], bytes that lie on that host

    @classmethod
    def unknown(cls, n: int) -> Replicas:
        """Returns replicas of files that are on no host in particular."""
        return cls(np.empty((n, 0), np.int64), np.empty((n, 0), np.int64))

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Replicas:
        """Returns the replicas of some rows."""
        return Replicas(self.host[rows], self.nbytes[rows])


class Groups(NamedTuple):
    """Lists of numbers, one after the other: list i is `values[starts[i] : starts[i + 1]]`."""

    starts: Integers
    values: Integers

    @classmethod
    def of(cls, group: Integers, values: Integers, count: int) -> Groups:
        """Returns `count` groups, by the group of each value, int64 [n], sorted."""
        return cls(np.searchsorted(group, np.arange(count + 1)), values)


class Hosts:
    """The hosts of some files' blocks.

    Attributes:
        names: Every host, in the order by which `Replicas` number them.
    """

    def __init__(self, files: Sequence[str], located: Mapping[str, Sequence[FileBlock]]) -> None:
        by_file = [located.get(file, ()) for file in files] if located else []
        blocks = [block for found in by_file for block in found]
        numbers: dict[str, int] = {}
        held = [numbers.setdefault(name, len(numbers)) for block in blocks for name in block.hosts]
        self.names = tuple(numbers)
        self._first_block = _starts([len(found) for found in by_file])
        self._start = np.array([block.start for block in blocks], np.int64)
        self._stop = self._start + np.array([block.nbytes for block in blocks], np.int64)
        self._hosts = Groups(_starts([len(block.hosts) for block in blocks]), np.array(held, np.int64))

    def replicas(self, file: Integers, start: Integers, stop: Integers, nbytes: Integers) -> Replicas:
        """Returns the replicas of row groups.

        Args:
            file: int64 [n], index of each row group's file.
            start: int64 [n], with `stop` the range of the file that holds its used columns.
            nbytes: int64 [n], bytes of those columns; the range may hold others between them.
        """
        if not self.names:
            return Replicas.unknown(len(file))
        # Some at a time: what is known of each on its way here is several times what is kept.
        parts = [
            self._replicas(*(column[i : i + _AT_ONCE] for column in (file, start, stop, nbytes)))
            for i in range(0, len(file), _AT_ONCE)
        ]
        width = max((part.host.shape[1] for part in parts), default=0)
        return Replicas(
            np.concatenate([_widened(part.host, width, NO_HOST) for part in parts] or [np.empty((0, 0), np.int64)]),
            np.concatenate([_widened(part.nbytes, width, 0) for part in parts] or [np.empty((0, 0), np.int64)]),
        )

    def _replicas(self, file: Integers, start: Integers, stop: Integers, nbytes: Integers) -> Replicas:
        group, host, overlap = self._overlaps(file, start, stop)
        span = stop - start
        shift = max(int(span.max()).bit_length() - 31, 0)  # so that no product is too large for 64 bits
        size = nbytes[group] * (overlap >> shift) // np.maximum(span[group] >> shift, 1)
        most = np.lexsort((host, -size, group))
        group, host, size = group[most], host[most], size[most]
        place = np.arange(len(group)) - np.searchsorted(group, group)
        width = min(int(place.max(initial=-1)) + 1, _MAX_REPLICAS)
        kept = place < width
        found = Replicas(np.full((len(file), width), NO_HOST, np.int64), np.zeros((len(file), width), np.int64))
        found.host[group[kept], place[kept]] = host[kept]
        found.nbytes[group[kept], place[kept]] = size[kept]
        return found

    def _overlaps(self, file: Integers, start: Integers, stop: Integers) -> tuple[Integers, Integers, Integers]:
        """Returns (row group, host, bytes of its range that lie there), sorted by the first two."""
        begin, end = self._first_block[file], self._first_block[file + 1]
        first = np.maximum(_bisect(self._start, start, begin, end, right=True) - 1, begin)
        count = np.maximum(_bisect(self._start, stop, begin, end) - first, 0)
        group, block = np.repeat(np.arange(len(file)), count), ranges(first, count)
        overlap = np.minimum(stop[group], self._stop[block]) - np.maximum(start[group], self._start[block])
        group, block, overlap = (column[overlap > 0] for column in (group, block, overlap))
        first = self._hosts.starts[block]
        count = self._hosts.starts[block + 1] - first
        key = np.repeat(group, count) * len(self.names) + self._hosts.values[ranges(first, count)]
        keys, nbytes = sums(key, np.repeat(overlap, count))
        return keys // len(self.names), keys % len(self.names), nbytes


def _starts(counts: Sequence[int]) -> Integers:
    """Returns int64 [n + 1], the start of each of some lists that lie one after the other."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _bisect(sorted_: Integers, value: Integers, begin: Integers, end: Integers, *, right: bool = False) -> Integers:
    """Returns the position of each value in its own part `[begin, end)` of a column: see `bisect`."""
    low, high = begin.copy(), end.copy()
    while (open_ := np.flatnonzero(low < high)).size:
        middle = (low[open_] + high[open_]) // 2
        found = sorted_[middle]
        after = found <= value[open_] if right else found < value[open_]
        low[open_] = np.where(after, middle + 1, low[open_])
        high[open_] = np.where(after, high[open_], middle)
    return low


def _widened(column: Integers, width: int, fill: int) -> Integers:
    return np.pad(column, ((0, 0), (0, width - column.shape[1])), constant_values=fill)


def ranges(first: Integers, count: Integers) -> Integers:
    """Returns `first[i], first[i] + 1, ...`, `count[i]` numbers each, one after the other."""
    before = np.cumsum(count) - count
    numbers: Integers = np.arange(int(count.sum())) + np.repeat(first - before, count)
    return numbers


def sums(key: Integers, value: Integers) -> tuple[Integers, Integers]:
    """Returns the distinct keys, in order, and the sum of each one's values."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[first], np.add.reduceat(value[order], first) if len(first) else first


def distinct(rows: Integers) -> tuple[Integers, Integers]:
    """Returns the distinct rows, int64 [n_distinct, n_columns], in order, and the index of each row among them."""
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    ordered = rows[order]
    new = np.any(np.diff(ordered, axis=0) != 0, axis=1)
    number = np.concatenate([[0], np.cumsum(new)])[: len(rows)]
    group = np.empty(len(rows), np.int64)
    group[order] = number
    return ordered[np.flatnonzero(np.concatenate([[True], new])[: len(rows)])], group


class HostGroups(NamedTuple):
    """Splits grouped by host, so that a shuffle block can be local to a node."""

    home: Integers  # int64 [n], one host of each split, chosen so that all hosts have about as many rows
    group: Integers  # int64 [n], the set of hosts that holds most of the split

    def take(self, rows: Integers) -> HostGroups:
        """Returns the groups of some splits."""
        return HostGroups(self.home[rows], self.group[rows])


def host_groups(replicas: Replicas, nbytes: Integers, rows: Integers) -> HostGroups:
    """Groups splits by the hosts that hold at least half of their bytes."""
    held = np.where(2 * replicas.nbytes >= nbytes[:, None], replicas.host, NO_HOST)
    if not held.shape[1]:
        return HostGroups(np.zeros_like(rows), np.zeros_like(rows))
    sets, group = distinct(np.sort(held, axis=1))
    set_rows = np.bincount(group, rows, minlength=len(sets))
    load: dict[int, float] = {}
    home = np.full(len(sets), NO_HOST, np.int64)
    for i in np.argsort(-set_rows, kind="stable").tolist():
        hosts = [host for host in sets[i].tolist() if host != NO_HOST]
        if hosts:
            home[i] = min(hosts, key=lambda host: (load.get(host, 0.0), host))
            load[int(home[i])] = load.get(int(home[i]), 0.0) + float(set_rows[i])
    return HostGroups(home[group], group)


def block_numbers(rows: Integers, block_rows: int, groups: HostGroups) -> Integers:
    """Returns int64 [n], the shuffle block of each split.

    A block ends where the next split would make it too large, where the home host changes, and, once it is half full,
    where the set of hosts changes.

    Args:
        rows: int64 [n], sorted by home, then by group.
    """
    ends = np.cumsum(rows).tolist()
    homes, sets = (_ends_of_runs(column) for column in groups)
    first_of_block = np.zeros(len(rows), np.int64)
    first = filled = 0
    while first < len(ends):
        stop = max(bisect_right(ends, filled + block_rows, lo=first), first + 1)
        half = bisect_left(ends, filled + block_rows / 2, lo=first) + 1
        stop = min(stop, _next(homes, first + 1), _next(sets, max(half, first + 1)))
        first, filled = stop, ends[stop - 1]
        if first < len(ends):
            first_of_block[first] = 1
    return np.cumsum(first_of_block)


def _ends_of_runs(column: Integers) -> list[int]:
    """Returns the index after each run of equal neighbours."""
    changes = np.flatnonzero(np.diff(column)) + 1
    return [*changes.tolist(), len(column)]


def _next(boundaries: Sequence[int], position: int) -> int:
    """Returns the first boundary at or after a position."""
    return boundaries[min(bisect_left(boundaries, position), len(boundaries) - 1)]
