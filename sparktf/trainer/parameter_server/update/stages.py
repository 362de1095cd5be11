"""When the stages of an update end, told from its graph: clocks are read beside the update, which waits for none.

A stage ends with what comes last: reading with the last variable that reaches the worker, computing with the last
gradient. Some of the next stage may be done by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}


class Touched:
    """What is done with some variables in the graph that is being recorded, from when this is made."""

    def __init__(self, variables: Sequence[Any]) -> None:
        """Begins.

        Args:
            variables: The tf.Variables that an update reads and changes.
        """
        self._variables = variables
        self._graph = tf.compat.v1.get_default_graph()
        self._before = len(self._graph.get_operations())

    def reads(self) -> list[Any]:
        """Returns what was read of the variables."""
        return [op.outputs[0] for op in self._operations(self._variables) if op.type in _READS and op.outputs]

    def writes(self) -> list[Any]:
        """Returns the operations that change the first of the variables that is changed."""
        found = ([op for op in self._operations([v]) if op.type not in _READS] for v in self._variables)
        return next(filter(None, found), [])

    def _operations(self, variables: Sequence[Any]) -> list[Any]:
        """Returns the operations on some variables since the beginning."""
        handles = {id(variable.handle) for variable in variables}
        inner = {handle.name for outer, handle in self._graph.captures if id(outer) in handles}
        new = self._graph.get_operations()[self._before :]
        return [op for op in new if any(tensor.name in inner for tensor in op.inputs)]


class Stages:
    """One update in the graph that is being recorded; it begins when this is made."""

    def __init__(self) -> None:
        """Reads the clock."""
        self._graph = tf.compat.v1.get_default_graph()
        self._clocks: list[Any] = []
        self._read_clock([])

    def end_reading(self, values: Sequence[Any]) -> None:
        """Reads the clock once all that was read of the variables has come: some tensors."""
        # An operation that takes the values, and looks at `True` alone. One that only came after the reading would cost
        # a message more from where it is done, and say nothing of when the values have come here.
        come = tf.raw_ops.Assert(condition=True, data=list(values), summarize=1) if values else None
        self._read_clock([] if come is None else [self._apart(come)])

    def end_computing(self, gradients: Sequence[Any]) -> None:
        """Reads the clock once all gradients are there."""
        self._read_clock([g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients if g is not None])

    def seconds(self) -> list[Any]:
        """Returns how long reading and computing took, float32 each."""
        began, read, computed = self._clocks
        return [tf.cast(read - began, tf.float32), tf.cast(computed - read, tf.float32)]

    def _read_clock(self, after: Sequence[Any]) -> None:
        with tf.control_dependencies([*self._clocks[-1:], *after]):
            clock = tf.timestamp()
        self._apart(clock.op)
        self._clocks.append(clock)

    def _apart(self, operation: Any) -> Any:
        """Has an operation wait for nothing but what it is told to; returns it.

        TensorFlow would put it after all others with side effects, such as a layer's `tf.py_function`.
        """
        self._graph.experimental_acd_manager.run_independently(operation)
        return operation
