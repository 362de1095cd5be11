"""A part of a shuffle block in memory: its rows, and the order in which they are handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparktf.feed.arrays.aside import Aside, BadRow, Handed
from sparktf.feed.arrays.columns import Array, Columns, slice_rows, take_rows
from sparktf.feed.arrays.memory import SpareMemory


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a part of a shuffle block.

    Attributes:
        columns: The rows as they were read.
        order: int64 [rows], the order of training; None for all rows from `start` on.
        handed: The rows of the epoch sequence that are handed out.
        bad: The rows that are not.
    """

    columns: Columns
    order: Array | None
    start: int
    handed: Handed
    bad: Sequence[BadRow] = ()

    @property
    def rows(self) -> int:
        """Rows that are handed out."""
        return self.handed.good

    def without(self, aside: Aside) -> Block:
        """Returns the part without the rows that are set aside."""
        order = np.arange(self.start, self.start + self.handed.rows) if self.order is None else self.order
        places = np.flatnonzero(~aside.bad[order])
        if len(places) == len(order):
            return self
        handed = self.handed._replace(places=places)
        return replace(self, order=order[places], handed=handed, bad=aside.among(order))

    def slab(self, start: int, rows: int, memory: SpareMemory) -> Columns:
        """Returns up to `rows` rows of the part from `start` on; all that are left if nothing is permuted."""
        if self.order is None:
            return slice_rows(self.columns, self.start + start, self.start + self.rows)
        order = self.order[start : start + rows]
        return take_rows(self.columns, order, memory.arrays(len(order)))
