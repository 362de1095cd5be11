"""Predictions for the rows of a DataFrame within a Spark task: columns become tensors as in training."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from sparktf.errors import ColumnError
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.executor.scorer import Scorer
from sparktf.executor.spark_stream import whole
from sparktf.feature import Feature
from sparktf.feed.arrays.aside import Aside, too_many
from sparktf.feed.arrays.columns import Array, Columns, Ragged, Strings, row_count, slice_rows, take_rows
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.wire.exported import ModelFeed, ModelOutput
from sparktf.wire.scored_model import CODES, VALUES, ScoredModel

ROW_SPLITS = "_row_splits"
_UNDER_WAY = 2
"""Batches with the scorer at a time: while it computes one, the next is prepared."""


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """The settings of the predictions in the task's closure."""

    model: ScoredModel
    feed: ModelFeed
    names: tuple[str, ...]  # The task's columns, in order
    kept: tuple[int, ...]  # Positions of columns to keep
    outputs: tuple[ModelOutput, ...]  # Outputs of the model, which follow the kept columns
    batch_rows: int  # Upper bound of the rows in a call of the model
    max_bad_rows: int  # Upper bound of a partition's rows that fail a check, whose predictions are null
    access: TaskAccess | None = None  # How the executor's process reads the model; None as this process does


class _Sent(NamedTuple):
    """Rows sent to the scorer: columns to keep, calls of the model, and bool [rows] of those that fail a check."""

    kept: list[pa.Array]
    calls: int
    bad: Array


def scored(batches: Iterable[pa.RecordBatch], settings: ScoringSettings) -> Iterator[pa.RecordBatch]:
    """The function of Spark's `mapInArrow`.

    Raises:
        BadValueError: a value cannot become a tensor as in training; the message names partition, row and column.
        ModelContractError: the model cannot be loaded, or fails.
        NodeLostError: the scoring process has ended, or hangs; Spark tries the task again.
    """
    scorer: Scorer | None = None
    under_way: deque[_Sent] = deque()
    rows = _Rows(settings)
    try:
        for batch in whole(batches):
            if not batch.num_rows:
                continue
            scorer = scorer or _scorer(settings)
            under_way.append(_send(scorer, batch, rows, settings))
            if len(under_way) == _UNDER_WAY:
                yield _received(scorer, under_way.popleft(), settings)
        while scorer is not None and under_way:
            yield _received(scorer, under_way.popleft(), settings)
    finally:
        if scorer is not None:
            scorer.close()


def _scorer(settings: ScoringSettings) -> Scorer:
    if settings.access is not None:
        settings.access.put_down()
    return Scorer(settings.model)


def scored_batch(scorer: Scorer, batch: pa.RecordBatch, settings: ScoringSettings) -> pa.RecordBatch:
    """Returns the results for some rows by themselves; raises as `scored`."""
    return _received(scorer, _send(scorer, batch, _Rows(settings), settings), settings)


class _Rows:
    """Turns the rows of a partition into tensors for the model."""

    def __init__(self, settings: ScoringSettings) -> None:
        context = TaskContext.get()
        self._origin = f"partition {0 if context is None else context.partitionId()}"
        self._settings = settings
        self._features = settings.feed.spec.features
        self._first_row = self._bad = 0

    def columns(self, batch: pa.RecordBatch) -> tuple[Columns, Array]:
        """Returns the next rows, and which of them fail a check: these are replaced by good rows.

        Raises:
            BadValueError: more rows than `max_bad_rows` fail.
        """
        n, first = batch.num_rows, self._first_row
        self._first_row += n
        group = RowGroup(
            origin=self._origin,
            number=lambda row: first + row,
            columns={
                name: pa.chunked_array([column])
                for name, column in zip(self._settings.names, batch.columns, strict=True)
            },
            rows=n,
            fill_null=self._settings.feed.spec.fill_null,
        )
        most = self._settings.max_bad_rows
        aside = Aside(n, most) if most else None
        tensors = {f.key: _zeros(f, n) for f in self._features if f.is_array}
        try:
            columns = assemble(self._features, [group], tensors, aside)
        except KeyError as error:
            raise ColumnError(f"{self._origin} has no column {error.args[0]!r}") from error
        if aside is None:
            return columns, np.zeros(n, np.bool_)
        self._bad += int(aside.bad.sum())
        if self._bad > most:
            raise too_many(self._bad, most, aside.among(np.arange(n)))
        return of_good_rows(columns, aside.bad), aside.bad


def of_good_rows(columns: Columns, bad: Array) -> Columns:
    """Replaces each bad row by a good one, since the model may not accept its values."""
    if not bad.any() or bad.all():
        return columns
    return take_rows(columns, np.where(bad, np.flatnonzero(~bad)[0], np.arange(len(bad))), {})


def _zeros(feature: Feature, rows: int) -> Array:
    return np.zeros((rows, *feature.shape), feature.numpy_dtype)


def _send(scorer: Scorer, batch: pa.RecordBatch, rows: _Rows, settings: ScoringSettings) -> _Sent:
    columns, bad = rows.columns(batch)
    n, size = row_count(columns), settings.batch_rows
    for start in range(0, n, size):
        part = slice_rows(columns, start, min(start + size, n))
        arrays: dict[str, Array] = {}
        for feature in settings.feed.spec.features:
            arrays |= _arrays(feature, part)
        scorer.send(arrays)
    return _Sent([batch.column(i) for i in settings.kept], -(-n // size), bad)


def _arrays(feature: Feature, columns: Columns) -> dict[str, Array]:
    """Returns the arrays that make up an input of the signature."""
    name, column = feature.name, columns[feature.key]
    found: dict[str, Array] = {}
    if isinstance(column, Ragged):
        column = column.compact()
        found[f"{name}{ROW_SPLITS}"] = column.splits
        column = column.values
    if isinstance(column, Strings):
        column = column.compact()
        return {**found, f"{name}{CODES}": column.codes, f"{name}{VALUES}": column.values}
    return {**found, name: column}


def _received(scorer: Scorer, sent: _Sent, settings: ScoringSettings) -> pa.RecordBatch:
    parts = [scorer.receive() for _ in range(sent.calls)]
    arrays = [scored_column([part[output.name] for part in parts], output, sent.bad) for output in settings.outputs]
    names = [f"c{i}" for i in range(len(sent.kept) + len(arrays))]
    return pa.RecordBatch.from_arrays([*sent.kept, *arrays], names)


def scored_column(parts: Sequence[Array], output: ModelOutput, bad: Array) -> pa.Array:
    """Returns the results of several calls for an output as one column, null for bad rows."""
    # Converted one by one: for an output [rows, None], each call may return rows of another length.
    column = pa.concat_arrays([as_arrow(part, output) for part in parts])
    return column.take(pa.array(np.arange(len(bad)), mask=bad)) if bad.any() else column


def as_arrow(array: Array, output: ModelOutput) -> pa.Array:
    """Returns values [rows, ...] as a column of values, or of lists of lists."""
    values = pa.array(array.reshape(-1)).cast(output_arrow_type(output.dtype))
    if output.is_single:
        return values
    for axis in reversed(range(1, array.ndim)):
        offsets = np.arange(math.prod(array.shape[:axis]) + 1, dtype=np.int64) * array.shape[axis]
        values = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return values


_ARROW = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.int64(),
    "float16": pa.float32(),
    "bfloat16": pa.float32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def output_arrow_type(dtype: str) -> pa.DataType | None:
    """Returns the column type of TensorFlow's values; None if there is none."""
    return _ARROW.get(dtype)
