"""Where gradients of several workers add up: on the parameter servers, beside the variables that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf


class Round(NamedTuple):
    """What the accumulators have to be told of a round; all int64.

    Attributes:
        number: Of the round.
        parts: How many gradients it has.
        rows: How many rows these are the means over, in all.
    """

    number: Any
    parts: Any
    rows: Any


class Accumulators:
    """The sums of gradients by variable, each weighted by the rows that it is the mean over.

    Dense gradients go into TensorFlow's own accumulators: each knows how often it was emptied, and drops what is for a
    round before. Of sparse ones there are none that a function of TensorFlow 2 can name, so they wait in queues, as
    they are, and each says which round it is for.
    """

    def __init__(self, variables: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Makes nothing yet: whoever first names an accumulator has its parameter server make it.

        Args:
            variables: tf.Variables that have gradients.
            gradients: Of what kind these are: a tensor or IndexedSlices for each.
        """
        kinds = [g.indices.dtype if isinstance(g, tf.IndexedSlices) else None for g in gradients]
        self._each = [
            _Sum(place, variable) if kind is None else _Queue(place, variable, kind)
            for place, (variable, kind) in enumerate(zip(variables, kinds, strict=True))
        ]

    def add(self, gradients: Sequence[Any], number: Any, rows: Any) -> list[Any]:
        """Adds a worker's gradients; returns the operations that do so.

        Args:
            number: int64: of the round that they are for.
            rows: int64: how many rows they are the mean over.
        """
        return [
            each.add(gradient, number, tf.cast(rows, each.variable.dtype))
            for each, gradient in zip(self._each, gradients, strict=True)
        ]

    def take(self, of: Round) -> list[Any]:
        """Empties all; returns the mean of what they had for a round, on the parameter servers."""
        taken = []
        for each in self._each:
            with tf.device(each.variable.device):
                taken.append(each.take(of))
        return taken

    def throw_away(self) -> list[Any]:
        """Empties all, whether they have anything or not; returns the operations that do so."""
        emptied = []
        for each in self._each:
            with tf.device(each.variable.device):
                emptied += each.throw_away()
        return emptied


class _Sum:
    """That of a dense gradient."""

    def __init__(self, place: int, variable: Any) -> None:
        self.variable = variable
        self._name = f"sparktf_gradient_{place}"

    def add(self, gradient: Any, number: Any, rows: Any) -> Any:
        weighted = gradient * rows
        with tf.device(self.variable.device):
            return tf.raw_ops.ResourceAccumulatorApplyGradient(
                handle=self._handle(), local_step=number, gradient=weighted
            )

    def take(self, of: Round) -> Any:
        total = self._take(self._handle())
        total.set_shape(self.variable.shape)
        return total / tf.cast(of.rows, self.variable.dtype)

    def throw_away(self) -> list[Any]:
        handle, nothing = self._handle(), tf.zeros(self.variable.shape, self.variable.dtype)
        # Taking waits for one gradient at least.
        added = tf.raw_ops.ResourceAccumulatorApplyGradient(handle=handle, local_step=tf.int64.max, gradient=nothing)
        with tf.control_dependencies([added]):
            return [self._take(handle).op]

    def _take(self, handle: Any) -> Any:
        return tf.raw_ops.ResourceAccumulatorTakeGradient(handle=handle, num_required=1, dtype=self.variable.dtype)

    def _handle(self) -> Any:
        return tf.raw_ops.ResourceConditionalAccumulator(
            dtype=self.variable.dtype, shape=self.variable.shape, shared_name=self._name, reduction_type="SUM"
        )


class _Queue:
    """Those of a sparse gradient, one by one."""

    def __init__(self, place: int, variable: Any, indices: Any) -> None:
        self.variable = variable
        self._name = f"sparktf_slices_{place}"
        self._kinds = [tf.int64, indices, variable.dtype]

    def add(self, gradient: Any, number: Any, rows: Any) -> Any:
        weighted = gradient.values * rows
        with tf.device(self.variable.device):
            return tf.raw_ops.QueueEnqueueV2(handle=self._handle(), components=[number, gradient.indices, weighted])

    def take(self, of: Round) -> Any:
        handle, width = self._handle(), self.variable.shape[1:]

        def goes_on(parts: Any, indices: Any, values: Any) -> Any:
            del indices, values
            return parts < of.parts

        def take_next(parts: Any, indices: Any, values: Any) -> Any:
            number, more, weighted = tf.raw_ops.QueueDequeueV2(handle=handle, component_types=self._kinds)
            number.set_shape(())
            more.set_shape((None,))
            weighted.set_shape((None, *width))
            wanted = tf.cast(tf.equal(number, of.number), tf.int64)  # a round before may have left some
            count = wanted * tf.shape(more, tf.int64)[0]
            return (
                parts + wanted,
                tf.concat([indices, more[:count]], 0),
                tf.concat([values, weighted[:count]], 0),
            )

        begin = (tf.constant(0, tf.int64), tf.zeros((0,), self._kinds[1]), tf.zeros((0, *width), self.variable.dtype))
        shapes = (tf.TensorShape(()), tf.TensorShape((None,)), tf.TensorShape((None, *width)))
        _, indices, values = tf.while_loop(goes_on, take_next, begin, shapes, parallel_iterations=1)
        shape = tf.constant(self.variable.shape.as_list(), self._kinds[1])
        return tf.IndexedSlices(values / tf.cast(of.rows, self.variable.dtype), indices, shape)

    def throw_away(self) -> list[Any]:
        return []  # whoever takes next leaves it out

    def _handle(self) -> Any:
        return tf.raw_ops.FIFOQueueV2(component_types=self._kinds, shared_name=self._name)
