"""Functions of a hand-written loop as workers run them: with rows, and with receipts of what has become of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sparktf.feature import FeedSpec
from sparktf.trainer.model.tensors import Layout, Tensors, rows_of
from sparktf.trainer.parameter_server.update.packing import bring_rows, mark_trained


class BatchesOfRows:
    """Implements `sparktf.node.Rows`."""

    def __init__(self, layout: Layout, rows: Tensors, count: Any, batch_size: int) -> None:
        self.count = count
        self.batches = (count + batch_size - 1) // batch_size
        self._layout = layout
        self._rows = rows
        self._batch_size = batch_size

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def batch(self, number: Any) -> tuple[Any, ...]:
        """See `sparktf.node.Rows`."""
        start = tf.cast(number, tf.int64) * self._batch_size
        return self._layout.batch(rows_of(self._rows, start, tf.minimum(start + self._batch_size, self.count)))


class ScheduledFunction:
    """A function of the user's, to be scheduled in place of it: it takes rows before, and marks them trained after.

    Attributes:
        traced: Takes what is asked for (`packing.asked_for`) and the user's own arguments; returns receipts as JSON,
            the number of rows, and what the user's function returns.
    """

    def __init__(self, function: Callable[..., Any], spec: FeedSpec, batch_size: int) -> None:
        # AutoGraph is for the user's code alone.
        self.traced = tf.function(self._run, autograph=False)
        is_traced = isinstance(function, tf.types.experimental.GenericFunction)
        self._function = function if is_traced else tf.function(function)
        self._spec = spec
        self._layout = Layout(spec)
        self._batch_size = batch_size

    def _run(self, asked: Any, *args: Any) -> tuple[Any, Any, Any]:
        rows, count, take = bring_rows(self._spec, asked)
        value = self._function(BatchesOfRows(self._layout, rows, count, self._batch_size), *args)
        with tf.control_dependencies(_effects()):
            return mark_trained(take, tf.zeros(1), tf.zeros(0, tf.int64)), count, value


def _effects() -> Sequence[Any]:
    """Returns all operations so far of the graph that is being made that do more than return something."""
    operations = tf.compat.v1.get_default_graph().get_operations()
    return [operation for operation in operations if operation.op_def is None or operation.op_def.is_stateful]
