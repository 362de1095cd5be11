"""Where the planned bytes lie, and who reads them because of it: row groups, shuffle blocks and nodes against hosts."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.sequence import BlockSlice

Column = npt.NDArray[np.int64]

NO_HOST = -1
_MAX_REPLICAS = 8
"""Hosts kept for a row group, those with most of its bytes; HDFS keeps three replicas of a block."""


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
    """Which hosts hold how much of each row group or split.

    Attributes:
        host: int64 [n, n_replicas], index into the hosts, `NO_HOST` in unused places.
        nbytes: int64 [n, n_replicas], bytes that lie on that host.
    """

    host: Column
    nbytes: Column

    @classmethod
    def unknown(cls, n: int) -> Replicas:
        """Returns what is known of files that are on no host in particular."""
        return cls(np.empty((n, 0), np.int64), np.empty((n, 0), np.int64))

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Replicas:
        """Returns those of some rows."""
        return Replicas(self.host[rows], self.nbytes[rows])


class Hosts:
    """The hosts of some files' blocks.

    Attributes:
        names: Every host, in the order by which `Replicas` number them.
    """

    def __init__(self, files: Sequence[str], located: Mapping[str, Sequence[FileBlock]]) -> None:
        self._blocks = [located.get(file, ()) for file in files] if located else []
        self._numbers: dict[str, int] = {}
        for blocks in self._blocks:
            for name in (name for block in blocks for name in block.hosts):
                self._numbers.setdefault(name, len(self._numbers))
        self.names = tuple(self._numbers)

    def replicas(self, file: Column, start: Column, stop: Column, nbytes: Column) -> Replicas:
        """Returns the replicas of row groups.

        Args:
            file: int64 [n], index of each row group's file.
            start: int64 [n], with `stop` the range of the file that holds its used columns.
            nbytes: int64 [n], bytes of those columns; the range may hold others between them.
        """
        if not self.names:
            return Replicas.unknown(len(file))
        rows = zip(file.tolist(), start.tolist(), stop.tolist(), nbytes.tolist(), strict=True)
        found = [self._held(self._blocks[f], first, last, size) for f, first, last, size in rows]
        width = min(max((len(held) for held in found), default=0), _MAX_REPLICAS)
        replicas = Replicas(np.full((len(found), width), NO_HOST, np.int64), np.zeros((len(found), width), np.int64))
        for i, held in enumerate(found):
            most = sorted(held.items(), key=lambda item: (-item[1], item[0]))[:width]
            for j, (host, size) in enumerate(most):
                replicas.host[i, j], replicas.nbytes[i, j] = host, size
        return replicas

    def _held(self, blocks: Sequence[FileBlock], start: int, stop: int, nbytes: int) -> dict[int, int]:
        """Returns host -> bytes of one row group, taken as spread evenly over its range."""
        held: dict[int, int] = {}
        first = max(bisect_right(blocks, start, key=lambda block: block.start) - 1, 0)
        for block in blocks[first:]:
            if block.start >= stop:
                break
            overlap = min(stop, block.start + block.nbytes) - max(start, block.start)
            for host in (self._numbers[name] for name in block.hosts if overlap > 0):
                held[host] = held.get(host, 0) + overlap
        return {host: nbytes * overlap // (stop - start) for host, overlap in held.items()}


class HostGroups(NamedTuple):
    """Splits put together by where they lie, so that a shuffle block can be local to somebody.

    Attributes:
        home: int64 [n], one host of each split, chosen so that all hosts have about as many rows.
        group: int64 [n], which set of hosts holds most of the split.
    """

    home: Column
    group: Column

    def take(self, rows: Column) -> HostGroups:
        """Returns those of some splits."""
        return HostGroups(self.home[rows], self.group[rows])


def host_groups(replicas: Replicas, nbytes: Column, rows: Column) -> HostGroups:
    """Groups splits by the hosts that hold at least half of their bytes."""
    held = np.where(2 * replicas.nbytes >= nbytes[:, None], replicas.host, NO_HOST)
    if not held.shape[1]:
        return HostGroups(np.zeros_like(rows), np.zeros_like(rows))
    sets, group = np.unique(np.sort(held, axis=1), axis=0, return_inverse=True)
    group = group.reshape(-1).astype(np.int64)
    set_rows = np.bincount(group, rows, minlength=len(sets))
    load: dict[int, float] = {}
    home = np.full(len(sets), NO_HOST, np.int64)
    for i in np.argsort(-set_rows, kind="stable").tolist():
        hosts = [host for host in sets[i].tolist() if host != NO_HOST]
        if hosts:
            home[i] = min(hosts, key=lambda host: (load.get(host, 0.0), host))
            load[int(home[i])] = load.get(int(home[i]), 0.0) + float(set_rows[i])
    return HostGroups(home[group], group)


def block_numbers(rows: Column, block_rows: int, groups: HostGroups) -> Column:
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


def _ends_of_runs(column: Column) -> list[int]:
    """Returns where equal neighbours end: the index after each run."""
    changes = np.flatnonzero(np.diff(column)) + 1
    return [*changes.tolist(), len(column)]


def _next(boundaries: Sequence[int], position: int) -> int:
    """Returns the first boundary at or after a position."""
    return boundaries[min(bisect_left(boundaries, position), len(boundaries) - 1)]


def share_locally(
    slices: Sequence[BlockSlice], local: Sequence[Sequence[int]], nodes: int, *, rebalance: bool
) -> list[list[BlockSlice]]:
    """Deals slices to nodes: as many rows to each as to the others, and as many of them local as can be.

    Slices with the fewest local nodes choose first, each the node that has most room left; what finds no room beside
    its data goes where there is room.

    Args:
        local: For each slice, the nodes beside its data.
        rebalance: Cut slices so that the nodes' rows differ by one at most; else they stay whole.
    """
    total = sum(piece.stop - piece.start for piece in slices)
    room = [total * (i + 1) // nodes - total * i // nodes for i in range(nodes)]
    shares: list[list[BlockSlice]] = [[] for _ in range(nodes)]
    homeless: list[BlockSlice] = []
    for i in sorted(range(len(slices)), key=lambda i: (len(local[i]), i)):
        rest = _place(slices[i], list(local[i]), room, shares, rebalance=rebalance)
        if rest is not None:
            homeless.append(rest)
    _place_anywhere(homeless, room, shares, rebalance=rebalance)
    return [sorted(share, key=lambda piece: piece.first_row) for share in shares]


def _place(
    piece: BlockSlice, candidates: list[int], room: list[int], shares: list[list[BlockSlice]], *, rebalance: bool
) -> BlockSlice | None:
    """Gives a slice to the candidates with most room; returns what is left of it, None if nothing is."""
    rest: BlockSlice | None = piece
    while rest is not None and candidates:
        node = max(candidates, key=lambda node: (room[node], -node))
        if room[node] <= 0:
            break
        rest = _give(rest, node, room, shares, rebalance=rebalance)
        candidates.remove(node)
    return rest


def _place_anywhere(
    pieces: Sequence[BlockSlice], room: list[int], shares: list[list[BlockSlice]], *, rebalance: bool
) -> None:
    most_room = [(-left, node) for node, left in enumerate(room)]
    heapq.heapify(most_room)
    for piece in pieces:
        rest: BlockSlice | None = piece
        while rest is not None:
            node = most_room[0][1]
            rest = _give(rest, node, room, shares, rebalance=rebalance)
            heapq.heapreplace(most_room, (-room[node], node))


def _give(
    piece: BlockSlice, node: int, room: list[int], shares: list[list[BlockSlice]], *, rebalance: bool
) -> BlockSlice | None:
    """Gives a node as much of a slice as it has room for, all of it where slices stay whole; returns the rest."""
    rows = piece.stop - piece.start
    taken = min(rows, room[node]) if rebalance else rows
    room[node] -= taken
    shares[node].append(piece._replace(stop=piece.start + taken))
    if taken == rows:
        return None
    return piece._replace(start=piece.start + taken, first_row=piece.first_row + taken)
