"""Which node gets which rows of an epoch; by columns, since a plan may have a million blocks and a gang 1,000 nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np

from sparktf.driver.plan.locality import NO_HOST, Groups, Replicas, ranges, sums
from sparktf.sequence import EpochOrder, Integers, Interval, Slices


class DealtSlices(Sequence[Slices]):
    """The slices of an epoch dealt to each node, in the order in which it trains them.

    Attributes:
        slices: Those of all nodes, node by node.
        ends: int64 [n_nodes], where each node's end.
    """

    def __init__(self, slices: Slices, node: Integers, nodes: int) -> None:
        """Sorts slices by their node, int64 [n_slices], and each node's by their place in the epoch."""
        order = np.lexsort((slices.first_row, node))
        self.slices = slices.take(order)
        self.ends = np.cumsum(np.bincount(node, minlength=nodes))

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def rows(self) -> Integers:
        """int64 [n_nodes], rows of each node."""
        before = np.concatenate([[0], np.cumsum(self.slices.rows)])
        return np.diff(before[self.ends], prepend=0)

    @overload
    def __getitem__(self, node: int) -> Slices: ...
    @overload
    def __getitem__(self, node: slice) -> Sequence[Slices]: ...
    def __getitem__(self, node: int | slice) -> Slices | Sequence[Slices]:
        if isinstance(node, slice):
            return [self[i] for i in range(*node.indices(len(self)))]
        stop = int(self.ends[node])
        start = int(self.ends[node - 1]) if node % len(self) else 0
        return self.slices.take(slice(start, stop))


def deal_slices(order: EpochOrder, intervals: Sequence[Interval], nodes: int, *, rebalance: bool) -> DealtSlices:
    """Deals the rows of `intervals` to `nodes` nodes.

    Args:
        rebalance: Cut blocks so that the nodes' rows differ by one at most; else hand out whole slices, each to the
            node that has the fewest rows so far.
    """
    slices = order.slices(intervals)
    if rebalance:
        return _cut(slices, nodes)
    owner = np.zeros(len(slices.block), np.int64)
    loads = [(0, node) for node in range(nodes)]
    for i, more in enumerate(slices.rows.tolist()):
        rows, node = loads[0]
        owner[i] = node
        heapq.heapreplace(loads, (rows + more, node))
    return DealtSlices(slices, owner, nodes)


def _cut(slices: Slices, nodes: int) -> DealtSlices:
    """Cuts the rows of all slices, in their order, into one part for each node; sizes differ by one at most."""
    ends = np.cumsum(slices.rows)
    total = int(ends[-1]) if len(ends) else 0
    edges = total * np.arange(nodes + 1) // nodes
    cuts = np.unique(np.concatenate([ends, edges]))
    first, rows = cuts[:-1], np.diff(cuts)
    piece = np.searchsorted(ends, first, side="right")
    node = np.searchsorted(edges, first, side="right") - 1
    return DealtSlices(slices.cut(piece, first - (ends - slices.rows)[piece], rows), node, nodes)


def share_locally(slices: Slices, local: Groups, nodes: int, *, rebalance: bool) -> DealtSlices:
    """Deals slices to nodes: equally many rows to each, as many of them local as possible.

    Slices with the fewest local nodes choose first, each the node that has most room left; slices without room beside
    their data go where there is room.

    Args:
        local: For each shuffle block, the nodes beside its data, in ascending order.
        rebalance: Cut slices so that the nodes' rows differ by one at most; else they stay whole.
    """
    total = int(slices.rows.sum())
    room = [total * (i + 1) // nodes - total * i // nodes for i in range(nodes)]
    dealt = _Dealt(slices.rows.tolist(), room, rebalance=rebalance)
    choices = np.diff(local.starts)[slices.block]
    starts, places, blocks = local.starts.tolist(), local.values.tolist(), slices.block.tolist()
    for i in np.argsort(choices, kind="stable").tolist():
        block = blocks[i]
        dealt.place(i, places[starts[block] : starts[block + 1]])
    dealt.place_anywhere()
    piece, node, start, rows = (np.array(column, np.int64) for column in dealt.columns)
    return DealtSlices(slices.cut(piece, start, rows), node, nodes)


def homes_of(block_rows: Integers, nodes: int) -> Groups:
    """Returns a node for each shuffle block, the same in every epoch, and about equally many rows for each node.

    Args:
        block_rows: int64 [n_blocks].
    """
    middles = np.cumsum(block_rows) - block_rows // 2
    total = max(int(block_rows.sum()), 1)
    blocks = np.arange(len(block_rows), dtype=np.int64)
    return Groups.of(blocks, np.minimum(middles * nodes // total, nodes - 1), len(block_rows))


class _Dealt:
    """Slices dealt one after the other. Plain lists: for single numbers NumPy takes ten times as long.

    Attributes:
        columns: Of the dealt pieces: the slice, its node, the start in the slice, and the number of rows.
    """

    def __init__(self, rows: list[int], room: list[int], *, rebalance: bool) -> None:
        self.columns: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
        self._rows = rows
        self._room = room
        self._rebalance = rebalance
        self._homeless: list[tuple[int, int]] = []

    def place(self, piece: int, candidates: list[int]) -> None:
        """Gives a slice to the first of the candidates with most room; if there is none, it waits."""
        room, left = self._room, self._rows[piece]
        while left and candidates:
            node = max(candidates, key=room.__getitem__)
            if room[node] <= 0:
                break
            left = self._give(piece, node, left)
            candidates.remove(node)
        if left:
            self._homeless.append((piece, left))

    def place_anywhere(self) -> None:
        """Gives the waiting slices to the nodes with most room."""
        room = self._room
        most_room = [(-rows, node) for node, rows in enumerate(room)]
        heapq.heapify(most_room)
        for piece, waiting in self._homeless:
            left = waiting
            while left:
                node = most_room[0][1]
                left = self._give(piece, node, left)
                heapq.heapreplace(most_room, (-room[node], node))

    def _give(self, piece: int, node: int, left: int) -> int:
        """Gives a node as much as it has room for, all of it where slices stay whole; returns the rest."""
        taken = min(left, self._room[node]) if self._rebalance else left
        self._room[node] -= taken
        pieces, nodes, starts, rows = self.columns
        pieces.append(piece)
        nodes.append(node)
        starts.append(self._rows[piece] - left)
        rows.append(taken)
        return left - taken


class BlockHosts(NamedTuple):
    """How much of each shuffle block each host holds, sorted by block: int64 [n] each."""

    block: Integers
    host: Integers
    nbytes: Integers

    @classmethod
    def of(cls, block: Integers, replicas: Replicas) -> BlockHosts:
        """Adds up the splits of each block; `block` is that of each split, int64 [n_splits]."""
        split, place = np.nonzero(replicas.host != NO_HOST)
        hosts = int(replicas.host.max(initial=0)) + 1
        key = block[split] * hosts + replicas.host[split, place]
        keys, nbytes = sums(key, replicas.nbytes[split, place])
        return cls(keys // hosts, keys % hosts, nbytes)

    def held(self, block: Integers, host: Integers) -> Integers:
        """Returns the bytes of each block on one host each: int64 [n], as `block` and `host`."""
        hosts = max(int(self.host.max(initial=0)), int(host.max(initial=0))) + 1
        keys, wanted = np.append(self.block * hosts + self.host, -1), block * hosts + host
        place = np.searchsorted(keys[:-1], wanted)
        return np.where((host != NO_HOST) & (keys[place] == wanted), np.append(self.nbytes, 0)[place], 0)

    def local_nodes(self, hosts: Sequence[int], blocks: int) -> Groups:
        """Returns for each of `blocks` blocks the nodes whose hosts hold most of it: at least half of the best of them.

        Args:
            hosts: The number of each node's host.
        """
        nodes = np.argsort(hosts, kind="stable")
        taken = np.array(hosts, np.int64)[nodes]
        first, stop = (np.searchsorted(taken, self.host, side=side) for side in ("left", "right"))
        best = np.zeros(blocks, np.int64)
        np.maximum.at(best, self.block[first < stop], self.nbytes[first < stop])
        near = (first < stop) & (2 * self.nbytes >= best[self.block]) & (best[self.block] > 0)
        count = (stop - first)[near]
        block = np.repeat(self.block[near], count)
        node = nodes[ranges(first[near], count)]
        order = np.lexsort((node, block))
        return Groups.of(block[order], node[order], blocks)
