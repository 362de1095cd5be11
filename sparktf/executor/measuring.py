"""Column statistics within a Spark task: of row groups that it reads itself, or of rows that Spark computes."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from sparktf.executor.handed_tokens import TaskAccess
from sparktf.executor.spark_stream import whole
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.vectors import plain_array, plain_column
from sparktf.feed.formats.format import format_of
from sparktf.sequence import Split
from sparktf.statistics.column_parts import ColumnKind, ColumnPart
from sparktf.statistics.column_sketch import ColumnSketch, Room

MEASURED = "part binary"
"""Schema of the one row that `measure_batches` returns to Spark, for `read_part`."""

_BATCH_ROWS = 1 << 16
"""Rows of a DataFrame measured together; Spark sends 10,000 at a time."""


_READ_BYTES = 16 << 20
"""Stored bytes of a row group that are read at a time."""


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """The settings of the measurement in a task's closure."""

    kinds: Mapping[str, ColumnKind]
    room: Room
    seed: int
    sample: float = 1.0  # Fraction of the rows to measure; only if the task reads them itself


@dataclass(frozen=True, slots=True)
class PartialStatistics:
    """The statistics of the `rows` rows that one task has measured."""

    rows: int
    columns: Mapping[str, ColumnPart]


class _TableSketch:
    def __init__(self, settings: MeasureSettings, task: int) -> None:
        self._draw = np.random.default_rng([settings.seed, task])
        self._sample = settings.sample
        self._columns = {name: ColumnSketch(kind, settings.room, self._draw) for name, kind in settings.kinds.items()}
        self._rows = 0

    def draw(self, rows: int) -> pa.Array | None:
        """Returns the rows to measure; None for all."""
        drawn = None if self._sample == 1 else np.flatnonzero(self._draw.random(rows) < self._sample)
        self._rows += rows if drawn is None else len(drawn)
        return None if drawn is None else pa.array(drawn)

    def add(self, name: str, column: pa.Array, drawn: pa.Array | None) -> None:
        """Adds a column of some rows, or of the drawn ones."""
        self._columns[name].add(column if drawn is None else column.take(drawn))

    def part(self) -> PartialStatistics:
        """Returns the statistics so far."""
        return PartialStatistics(self._rows, {name: sketch.part() for name, sketch in self._columns.items()})


def measure_splits(
    task: int,
    shares: Iterable[Sequence[Split]],
    settings: MeasureSettings,
    spec: FeedSpec,
    access: TaskAccess,
    *,
    sets_aside: bool,
) -> Iterator[PartialStatistics]:
    """The function of an RDD's `mapPartitionsWithIndex`: reads row groups as trainers do.

    Args:
        shares: The splits dealt to the task, in several sequences.
        sets_aside: Skip unreadable row groups.

    Raises:
        DataError: see `Reader.read`.
        StorageError: the storage failed.
    """
    sketch = _TableSketch(settings, task)
    reader = format_of(spec).new_reader(spec, access.file_systems().open, sets_aside=sets_aside)
    try:
        for split in itertools.chain.from_iterable(shares):
            drawn = None
            # A row group is skipped as a whole.
            nbytes = 0 if sets_aside else split.nbytes
            for i, names in enumerate(_pieces(tuple(settings.kinds), nbytes)):
                group = reader.read(split, names)
                if group.unreadable:
                    break
                drawn = drawn if i else sketch.draw(group.rows)
                for name in names:
                    sketch.add(name, plain_array(group.column(name)), drawn)
    finally:
        reader.close()
    yield sketch.part()


def measure_batches(batches: Iterable[pa.RecordBatch], settings: MeasureSettings) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`; raises what `whole` does."""
    context = TaskContext.get()
    sketch = _TableSketch(settings, 0 if context is None else context.partitionId())
    for table in _tables(whole(batches)):
        drawn = sketch.draw(table.num_rows)
        for name, column in zip(settings.kinds, table.columns, strict=True):
            sketch.add(name, plain_column(column).combine_chunks(), drawn)
    yield pa.RecordBatch.from_pylist([{"part": pickle.dumps(sketch.part())}])


def read_part(content: bytes) -> PartialStatistics:
    """Returns a task's pickled result, which Spark has carried like any other result."""
    part: PartialStatistics = pickle.loads(content)
    return part


def _pieces(names: Sequence[str], nbytes: int) -> Iterator[Sequence[str]]:
    """Yields groups of columns to read together, so that a wide row group is never in memory as a whole."""
    size = max(1, len(names) * _READ_BYTES // max(nbytes, 1))
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields the rows of some batches, many at a time."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _BATCH_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
