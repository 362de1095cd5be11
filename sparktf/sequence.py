"""The plan of a run's input and positions in it; pure arithmetic, the same in every process.

A source is a list of *splits* (Parquet row groups). Splits are put together into *shuffle blocks*. In every epoch
the blocks are ordered anew, which lays all rows of the stream into one sequence `[0, rows)`: the *epoch sequence*.
Positions are intervals `[start, stop)` of that sequence, half-open, so that a cursor does not depend on how many
workers share the epoch. A worker's share is a list of *pieces*: intervals of blocks, in the order it trains them.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.message import Message

Integers = npt.NDArray[np.int64]
Interval = tuple[int, int]
PartitionValue = int | float | str | None


class Stream(enum.StrEnum):
    """A stream of input, planned once per run."""

    TRAIN = "train"
    VALIDATION = "validation"


class Keep(enum.StrEnum):
    """The rows of a row group that belong to the stream, if a fraction is held out."""

    ALL = "all"
    TRAIN = "train"
    VALIDATION = "validation"


class Draw(enum.IntEnum):
    """Purposes of random numbers. Each has a sequence of its own for every seed, epoch and block."""

    SPLIT_ORDER = 1
    BLOCK_ORDER = 2
    BLOCK_ROWS = 3
    HELD_OUT = 4
    BUCKETS = 5
    RESAMPLES = 6


def generator(draw: Draw, seed: int, *key: int) -> np.random.Generator:
    """Returns the generator of one purpose at one place, e.g. (`Draw.BLOCK_ROWS`, seed, epoch, block)."""
    # NumPy pads a short seed with zeros: without the purpose, (seed, epoch) and (seed, epoch, block 0) would be one.
    return np.random.default_rng([draw, seed, *key])


class FileStamp(NamedTuple):
    """Identifies the content of a file: another file in its place has another stamp."""

    nbytes: int
    modified_ms: int  # Time of its last change, in milliseconds since the epoch
    footer: int  # CRC-32 of its footer, which has sizes, places and statistics of its data


class Split(NamedTuple):
    """One row group of one file. A plain tuple: there may be a million of them."""

    path: str
    file: int  # Index of the file in the plan; with `row_group` it seeds the draw of held-out rows
    row_group: int
    group_rows: int  # Rows in the row group
    selected: int  # Rows that pass the source's filter
    held_out: int  # Of these, the rows drawn for the validation fraction
    keep: Keep
    rows: int  # Rows that belong to this stream
    nbytes: int
    # Values of the partition columns, in the order of `FeedSpec.partition_columns`
    partition: tuple[PartitionValue, ...] = ()
    local_nbytes: int = 0  # Of `nbytes`, the bytes on the host of the node that reads it
    stamp: FileStamp | None = None  # The file as it was planned; None in older plans


class Piece(Message):
    """Rows `[start, stop)` of one shuffle block, counted after the block's permutation."""

    block: int
    start: int
    stop: int
    first_row: int  # Where the piece starts in the epoch sequence
    splits: tuple[Split, ...]

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Assignment(Message):
    """The pieces that one node reads of one stream in one epoch, in order."""

    stream: Stream
    epoch: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def intervals(self) -> list[Interval]:
        """The intervals of the epoch sequence that it covers, in the order of the pieces."""
        return [(piece.first_row, piece.first_row + piece.rows) for piece in self.pieces]


class Cursor(Message):
    """A position in a stream: all epochs before `epoch`, and the intervals `done` of that epoch's sequence."""

    epoch: int = 0
    done: tuple[Interval, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of the epoch that are done."""
        return sum(stop - start for start, stop in self.done)

    def advance(self, intervals: Iterable[Interval]) -> Cursor:
        """Returns the cursor with more intervals done.

        Raises:
            ValueError: an interval was done before (a row would be trained twice).
        """
        return Cursor(epoch=self.epoch, done=tuple(merge([*self.done, *intervals])))


class BlockSlice(NamedTuple):
    """Rows `[start, stop)` of a block, whose first row is `first_row` of the epoch sequence."""

    block: int
    start: int
    stop: int
    first_row: int


class Slices(NamedTuple):
    """Slices of blocks (`BlockSlice`) as columns, int64 [n_slices] each."""

    block: Integers
    start: Integers
    stop: Integers
    first_row: Integers

    @property
    def rows(self) -> Integers:
        """int64 [n_slices], rows of each."""
        return self.stop - self.start

    def take(self, chosen: Integers | slice) -> Slices:
        """Returns a selection of the slices."""
        return Slices(*(column[chosen] for column in self))

    def cut(self, piece: Integers, start: Integers, rows: Integers) -> Slices:
        """Returns parts: `rows[i]` rows of the slice `piece[i]`, from its row `start[i]` on."""
        whole = self.take(piece)
        first = whole.start + start
        return Slices(whole.block, first, first + rows, whole.first_row + start)

    def tolist(self) -> list[BlockSlice]:
        """Returns them one by one."""
        return [BlockSlice(*each) for each in zip(*(column.tolist() for column in self), strict=True)]


class EpochOrder:
    """The order of a stream's shuffle blocks in one epoch.

    Attributes:
        blocks: int64 [n_blocks], block ids in the order of the epoch.
        starts: int64 [n_blocks + 1], where each block starts in the epoch sequence; the last is the number of rows.
    """

    def __init__(self, block_rows: npt.NDArray[np.int64], *, epoch: int, seed: int | None) -> None:
        """Orders blocks of `block_rows` rows by (seed, epoch); `seed=None` keeps the planned order."""
        n = len(block_rows)
        self.blocks = np.arange(n) if seed is None else generator(Draw.BLOCK_ORDER, seed, epoch).permutation(n)
        self.starts = np.concatenate([[0], np.cumsum(block_rows[self.blocks])]).astype(np.int64)

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    def slices(self, intervals: Sequence[Interval]) -> Slices:
        """Returns the block slices that the intervals cover, in order."""
        first, stop = np.array(intervals, np.int64).reshape(-1, 2).T
        begin = np.searchsorted(self.starts, first, side="right") - 1
        count = np.maximum(np.searchsorted(self.starts, stop, side="left") - begin, 0)
        interval = np.repeat(np.arange(len(first)), count)
        position = np.arange(len(interval)) + np.repeat(begin - (np.cumsum(count) - count), count)
        before = self.starts[position]
        start, stop = np.maximum(first[interval], before), np.minimum(stop[interval], self.starts[position + 1])
        found = Slices(self.blocks[position], start - before, stop - before, start)
        return found.take(np.flatnonzero(found.rows > 0))


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Returns the intervals sorted and joined where they touch.

    Raises:
        ValueError: two intervals overlap.
    """
    merged: list[Interval] = []
    for start, stop in sorted(intervals):
        if merged and start < merged[-1][1]:
            raise ValueError(f"rows [{start}, {merged[-1][1]}) are covered twice")
        if merged and start == merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged


def leading(intervals: Iterable[Interval], rows: int) -> list[Interval]:
    """Returns the intervals that the first `rows` rows of the given ones cover.

    Raises:
        ValueError: `rows` is negative or more than the intervals have.
    """
    done: list[Interval] = []
    left = rows
    for start, stop in intervals:
        taken = min(left, stop - start)
        if taken > 0:
            done.append((start, start + taken))
        left -= taken
    if rows < 0 or left > 0:
        raise ValueError(f"{rows} of {rows - left} rows")
    return merge(done)


def remaining(rows: int, done: Sequence[Interval]) -> list[Interval]:
    """Returns `[0, rows)` without `done`."""
    edges = [(0, 0), *merge(done), (rows, rows)]
    return [(left[1], right[0]) for left, right in itertools.pairwise(edges) if left[1] < right[0]]


def batch_shares(batch_size: int, nodes: int) -> list[int]:
    """Returns the rows that each node brings to a full update of `batch_size` rows; they differ by one at most."""
    return [batch_size * (i + 1) // nodes - batch_size * i // nodes for i in range(nodes)]
