"""Accumulators on the parameter servers, beside their variables: the sums of several workers' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf


class Round(NamedTuple):
    """A round: its number, the count of its gradients, and the rows that they are means over in all; int64 each."""

    number: Any
    parts: Any
    rows: Any


class Accumulators:
    """The sums of gradients by variable, each weighted by the rows that it is the mean over.

    Dense gradients go into TensorFlow's conditional accumulators, which count how often they were emptied and drop a
    gradient of an earlier round. Sparse accumulators cannot be used from a function of TensorFlow 2, so sparse
    gradients wait in queues, each with the number of its round.
    """

    def __init__(self, variables: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Makes nothing yet: a parameter server makes an accumulator when it is first named.

        Args:
            variables: tf.Variables that have gradients.
            gradients: Examples of these, to tell tensors from IndexedSlices.
        """
        kinds = [g.indices.dtype if isinstance(g, tf.IndexedSlices) else None for g in gradients]
        self._each = [
            _Sum(place, variable) if kind is None else _Queue(place, variable, kind)
            for place, (variable, kind) in enumerate(zip(variables, kinds, strict=True))
        ]

    def add(self, gradients: Sequence[Any], number: Any, rows: Any) -> list[Any]:
        """Returns the operations that add a worker's gradients, means over `rows` rows, to a round; both int64."""
        return [
            each.add(gradient, number, tf.cast(rows, each.variable.dtype))
            for each, gradient in zip(self._each, gradients, strict=True)
        ]

    def take(self, of: Round) -> list[Any]:
        """Empties all accumulators; returns the mean gradients of a round, on the parameter servers."""
        taken = []
        for each in self._each:
            with tf.device(each.variable.device):
                taken.append(each.take(of))
        return taken

    def throw_away(self) -> list[Any]:
        """Returns the operations that empty all accumulators, even those that are empty."""
        emptied = []
        for each in self._each:
            with tf.device(each.variable.device):
                emptied += each.throw_away()
        return emptied


class _Sum:
    """The accumulator of a dense gradient."""

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
        # Taking blocks until there is at least one gradient.
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
    """The queue of a sparse gradient."""

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
            wanted = tf.cast(tf.equal(number, of.number), tf.int64)  # an earlier round may have left some
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
        return []  # the next `take` skips them by their round

    def _handle(self) -> Any:
        return tf.raw_ops.FIFOQueueV2(component_types=self._kinds, shared_name=self._name)
