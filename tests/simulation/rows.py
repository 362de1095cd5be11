"""Rows by content: which ones there are, which a share has, and which a position of the epoch sequence means."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import numpy.typing as npt

from sparktf.config.job import JobConfig
from sparktf.driver.plan.locality import Replicas
from sparktf.driver.plan.plan import Plan, SplitTable
from sparktf.feature import Feature, FeedSpec, Kind
from sparktf.feed.channel.held import SPLIT_SPAN
from sparktf.sequence import Assignment, Draw, Interval, Keep, Stream, generator

Ids = npt.NDArray[np.int64]

_FEATURES = (
    Feature(kind=Kind.INPUT, name="x", columns=("x",), dtype="float32"),
    Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype="float32"),
)


BLOCK_ROWS = 8
"""Rows of a shuffle block, where Spark feeds them."""


class Rows:
    """A few files of a few row groups, in blocks of a few row groups; every row has a number.

    Attributes:
        count: Rows of an epoch.
        bad: bool [count], those that fail a check.
        validation: Rows that are evaluated; 0 for none.
    """

    def __init__(
        self,
        config: JobConfig,
        groups: int,
        hosts: tuple[str, ...],
        seed: int,
        *,
        bad: float = 0.0,
        validation: int = 0,
    ) -> None:
        """Draws them.

        Args:
            bad: About which part of them fails a check.
        """
        chance = random.Random(f"{seed} rows")
        sizes = np.array([chance.randint(1, 12) for _ in range(groups)], np.int64)
        block = np.sort(np.array([chance.randrange(max(groups // 2, 1)) for _ in range(groups)], np.int64))
        block = np.unique(block, return_inverse=True)[1].astype(np.int64)
        file = np.arange(groups, dtype=np.int64) // 4
        replicas = Replicas(
            np.array([[chance.randrange(len(hosts))] for _ in range(groups)], np.int64), sizes[:, None] * 8
        )
        zeros = np.zeros(groups, np.int64)
        table = SplitTable(
            Keep.ALL, block, file, np.arange(groups, dtype=np.int64) % 4, sizes, sizes, zeros, sizes * 8, replicas
        )
        self.count = int(sizes.sum())
        self.bad = np.array([chance.random() < bad for _ in range(self.count)], np.bool_)
        self.validation = validation
        tables, files = {Stream.TRAIN: table}, tuple(f"/lake/{i}.parquet" for i in range(int(file[-1]) + 1))
        if validation:
            tables[Stream.VALIDATION] = _one_group(len(files), validation)
            files = (*files, "/lake/validation.parquet")
        self.plan = Plan(
            spec=FeedSpec(features=_FEATURES, shuffle=config.data.shuffle, seed=config.train.seed),
            plan_hash=config.plan_hash(),
            files=files,
            partition_values=((),) * len(files),
            tables=tables,
            hosts=hosts,
        )
        starts = np.concatenate([[0], np.cumsum(sizes)])
        self._first = {(int(f), i % 4): int(starts[i]) for i, f in enumerate(file)}
        self._block_first = starts[table.block_starts]
        self._permuted = cache(self._permute)
        self._sequence = cache(self._lay_out)

    def of(self, assignment: Assignment, epoch: int) -> Ids:
        """Returns the rows of a share, in the order in which its node trains on them."""
        parts = []
        for piece in assignment.pieces:
            firsts = [(self._first[split.file, split.row_group], split.rows) for split in piece.splits]
            block = np.concatenate([np.arange(first, first + rows) for first, rows in firsts])
            parts.append(block[self._permuted(epoch, piece.block, len(block))][piece.start : piece.stop])
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def at(self, epoch: int, interval: Interval) -> Ids:
        """Returns the rows at some positions of an epoch's sequence."""
        return self._sequence(epoch)[interval[0] : interval[1]]

    def _lay_out(self, epoch: int) -> Ids:
        order, parts = self.plan.order(Stream.TRAIN, epoch), []
        for block in order.blocks.tolist():
            first, stop = int(self._block_first[block]), int(self._block_first[block + 1])
            parts.append(np.arange(first, stop)[self._permuted(epoch, block, stop - first)])
        return np.concatenate(parts)

    def _permute(self, epoch: int, block: int, rows: int) -> Ids:
        if not self.plan.spec.shuffle:
            return np.arange(rows)
        return generator(Draw.BLOCK_ROWS, self.plan.spec.seed, epoch, block).permutation(rows)


def _one_group(file: int, rows: int) -> SplitTable:
    """Returns the table of a stream that is one row group, on the first host."""
    zero = np.zeros(1, np.int64)
    replicas = Replicas(np.zeros((1, 1), np.int64), np.full((1, 1), rows * 8, np.int64))
    count = np.array([rows], np.int64)
    return SplitTable(Keep.ALL, zero, np.array([file], np.int64), zero, count, count, zero, count * 8, replicas)


class FedRows:
    """What Spark computes: a few partitions of a few rows, some of none; every row has a number.

    Attributes:
        count: Rows of an epoch, of which none is bad.
        splits: How many rows each partition has.
    """

    def __init__(self, config: JobConfig, splits: int, seed: int) -> None:
        chance = random.Random(f"{seed} rows")
        self.splits = [chance.choice((0, 1, 5, 12, 30)) for _ in range(splits - 1)] + [chance.randint(1, 30)]
        self.count = sum(self.splits)
        self.bad = np.zeros(self.count, np.bool_)
        self.validation = 0
        self.plan = Plan(
            spec=FeedSpec(features=_FEATURES, shuffle=config.data.shuffle, seed=config.train.seed),
            plan_hash=config.plan_hash(),
            files=(),
            partition_values=(),
            tables={},
            staged=(Stream.TRAIN,),
        )
        self._starts = np.concatenate([[0], np.cumsum(self.splits)])
        self._sequence = cache(self._lay_out)

    def split(self, split: int) -> Ids:
        """Returns the rows of a partition."""
        return np.arange(self._starts[split], self._starts[split + 1])

    def at(self, epoch: int, interval: Interval) -> Ids:
        """Returns the rows at some positions of an epoch's sequence."""
        split, start = divmod(interval[0], SPLIT_SPAN)
        return self._sequence(epoch, split)[start : start + interval[1] - interval[0]]

    def _lay_out(self, epoch: int, split: int) -> Ids:
        ids = self.split(split)
        if not self.plan.spec.shuffle:
            return ids
        parts = [ids[first : first + BLOCK_ROWS] for first in range(0, len(ids), BLOCK_ROWS)]
        draws = [generator(Draw.BLOCK_ROWS, self.plan.spec.seed, epoch, split, i) for i in range(len(parts))]
        return np.concatenate([part[draw.permutation(len(part))] for part, draw in zip(parts, draws, strict=True)])
