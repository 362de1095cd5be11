"""Which worker keeps which shuffle blocks on its disk (`data.cache: disk`): those that it has leased before."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparktf.driver.attempt.rows.leases import Lessee
from sparktf.driver.attempt.rows.unleased import BlockLayout
from sparktf.driver.plan.locality import Groups
from sparktf.sequence import Integers
from sparktf.topology import NodeId


class KeptBlocks:
    """The blocks of each worker, in place of the hosts that store them. Not thread-safe.

    A worker reads all of a block of which it leases a part, and its disk's cache ends with its process.
    """

    def __init__(self, block_rows: Integers, workers: Iterable[NodeId]) -> None:
        """Knows of none yet."""
        self._rows = block_rows
        self._places = {node: place for place, node in enumerate(workers)}
        self._holds = np.zeros((len(block_rows), len(self._places)), np.bool_)
        self._incarnations: dict[NodeId, int] = {}

    def place(self, node: NodeId) -> int:
        """Returns the number of a worker among the `hosts` of `layout`."""
        return self._places[node]

    def note(self, lessee: Lessee, blocks: Integers) -> None:
        """Notes the blocks of a lease; those of an earlier process of the worker are gone."""
        place, known = self._places[lessee.node], self._incarnations.get(lessee.node, -1)
        if lessee.incarnation > known:
            self._incarnations[lessee.node] = lessee.incarnation
            self._holds[:, place] = False
        if lessee.incarnation >= known:
            self._holds[blocks, place] = True

    def layout(self) -> BlockLayout:
        """Returns how the blocks lie on the workers."""
        block, place = np.nonzero(self._holds)
        return BlockLayout(self._rows, tuple(range(len(self._places))), Groups.of(block, place, len(self._rows)))
