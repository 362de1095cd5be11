"""The protocol between a worker's feed and the graph that runs there: rows as a flat list of dense tensors.

A PyFunc has no dicts, pairs or ragged tensors. It returns for every feature, in the order of the `FeedSpec`: its
values, int32 codes for text; the row splits of a ragged one; the distinct strings of text. The coordinator, which
traces the graph, and the worker, which answers, both use this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparktf.feature import Feature, FeedSpec
from sparktf.feed.arrays.columns import Array, Column, Columns, Ragged, Strings
from sparktf.trainer.model.tensors import Tensors

ROWS = "sparktf_rows"
"""Token of the PyFunc that returns rows: (epoch, updates, acknowledged) -> flat tensors, number of rows, take."""

DONE = "sparktf_done"
"""Token of the PyFunc that marks a take as trained: (take, sums, stale, metrics) -> receipts, as JSON.

sums: float32 [3], of the loss over the rows, and of the seconds of reading and of computing, NaN if not measured; [1]
if these cannot be distinguished. stale: int64 [updates], the staleness of each update; empty if not measured. metrics:
float64 [numbers], what the rows add to the states of the metrics; empty if not measured.
"""

PART_DONE = "sparktf_part_done"
"""As `DONE`, for only the first rows of a take: (take, number of rows, sum of the loss, metrics) -> receipts."""

WHO = "sparktf_who"
"""Token of the PyFunc that identifies the worker of a take, (take) -> int64 [4]: the worker's index, its incarnation, 0
if it can have no rows at present, and the take."""

PAUSE = "sparktf_pause"
"""Token of the PyFunc that waits a little, (number of waits before) -> the same + 1."""


def flat_specs(spec: FeedSpec) -> list[tf.TensorSpec]:
    """Returns the specification of each flat tensor, for any number of rows."""
    return [flat for feature in spec.features for flat in _flat_specs(feature)]


def _flat_specs(feature: Feature) -> Iterator[tf.TensorSpec]:
    yield tf.TensorSpec((None, *feature.shape), tf.int32 if feature.is_text else feature.dtype)
    if feature.ragged:
        yield tf.TensorSpec((None,), tf.int64)
    if feature.is_text:
        yield tf.TensorSpec((None,), tf.string)


def flatten(spec: FeedSpec, columns: Columns) -> list[Array]:
    """Returns the flat tensors of some rows as arrays, which share the columns' memory if possible."""
    return [flat for feature in spec.features for flat in _flat(columns[feature.key])]


def _flat(column: Column) -> Iterator[Array]:
    if isinstance(column, Ragged):
        column = column.compact()
        values, *texts = _flat(column.values)
        yield from (values, column.splits, *texts)
    elif isinstance(column, Strings):
        column = column.compact()
        yield from (column.codes, column.values)
    else:
        yield column


def unflatten(spec: FeedSpec, tensors: Sequence[Any]) -> Tensors:
    """Returns the rows of flat tensors in the form of `sparktf.trainer.model.tensors.signature`; works in a graph.

    A PyFunc's tensors have no static shape, and get that of `flat_specs`.
    """
    for tensor, flat in zip(tensors, flat_specs(spec), strict=True):
        tensor.set_shape(flat.shape)
    left = iter(tensors)
    return {feature.key: _joined(feature, left) for feature in spec.features}


def _joined(feature: Feature, left: Iterator[Any]) -> Any:
    rows = next(left)
    if feature.ragged:
        rows = tf.RaggedTensor.from_row_splits(rows, next(left), validate=False)
    return (rows, next(left)) if feature.is_text else rows


def asked_for(epoch: int, updates: int, acknowledged: Sequence[tuple[int, int]]) -> Array:
    """Returns the arguments of an execution in one tensor: each further tensor would cost another call.

    Args:
        updates: The most updates to make.
        acknowledged: For each worker its incarnation, and the number of its last known receipt.
    """
    return np.array([epoch, updates, *(number for pair in acknowledged for number in pair)], np.int64)


def bring_rows(spec: FeedSpec, asked: Any) -> tuple[Tensors, Any, Any]:
    """Takes rows on the worker of an execution; called once in its graph, with the result of `asked_for`.

    Returns:
        The rows, their number, and the number of the take.
    """
    kinds = [flat.dtype for flat in flat_specs(spec)]
    *flat, count, take = tf.raw_ops.PyFunc(
        input=[asked[0], asked[1], tf.reshape(asked[2:], (-1, 2))], token=ROWS, Tout=[*kinds, tf.int64, tf.int64]
    )
    count.set_shape(())
    take.set_shape(())
    return unflatten(spec, flat), count, take


def mark_trained(take: Any, sums: Any, stale: Any, metrics: Any = ()) -> Any:
    """Marks a take as trained; returns the receipts, as JSON. See `DONE`."""
    given = [take, sums, stale, tf.convert_to_tensor(metrics, tf.float64)]
    (receipts,) = tf.raw_ops.PyFunc(input=given, token=DONE, Tout=[tf.string])
    receipts.set_shape(())
    return receipts
