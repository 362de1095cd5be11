"""The fed splits that a node holds, and the parts of them that wait to be trained."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from sparktf.feature import FeedSpec
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.channel.staged_rows import StagedRows
from sparktf.sequence import Interval

SPLIT_SPAN = 1 << 40
"""Positions of the epoch sequence that are reserved for each split: more than any has rows."""


class Queued(NamedTuple):
    """Rows `[start, stop)` of a permuted shuffle block that wait to be trained."""

    split: int
    first_row: int  # Number of the block's first row in its split
    rows: int  # Rows of the whole block
    start: int
    stop: int
    held: Held


@dataclass(slots=True)
class Held:
    """The rows of a sealed split, or of a block that another node gave away."""

    data: StagedRows
    offset: int = 0  # Number in the split of the first row
    queued: int = 0  # Parts not read yet
    kept: bool = False  # Whether it is kept for later epochs

    def read(self, first_row: int, rows: int) -> list[pa.RecordBatch]:
        """Returns the rows of a block."""
        start = first_row - self.offset
        return self.data.read(start, start + rows)


def within(done: Sequence[Interval], split: int) -> list[Interval]:
    """Returns the rows of a split that are done, numbered in the split."""
    first = split * SPLIT_SPAN
    found = ((max(start - first, 0), min(stop - first, SPLIT_SPAN)) for start, stop in done)
    return [(start, stop) for start, stop in found if start < stop]


def groups_of(queued: Queued, batches: Sequence[pa.RecordBatch], spec: FeedSpec) -> list[RowGroup]:
    """Returns the rows of a part's block, as they were read."""
    groups, row = [], queued.first_row
    for batch in batches:
        groups.append(
            RowGroup(
                origin=f"partition {queued.split} of the data",
                number=partial(operator.add, row),
                columns={name: pa.chunked_array([batch.column(name)]) for name in batch.schema.names},
                rows=batch.num_rows,
                fill_null=spec.fill_null,
            )
        )
        row += batch.num_rows
    return groups


def nbytes_of(queued: Queued) -> int:
    """Returns a part's portion of its split's bytes."""
    data = queued.held.data
    return data.nbytes * (queued.stop - queued.start) // max(data.rows, 1)
