"""Measures an update within its graph: the times of its stages, and its staleness.

The clock is read beside the update, which does not wait for it. A stage ends with its last result: reading with the
last variable that arrives, computing with the last gradient. Part of the next stage may be done by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}


class Touched:
    """The operations on an update's tf.Variables in the graph that is being recorded, from now on."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = variables
        self._graph = tf.compat.v1.get_default_graph()
        self._before = len(self._graph.get_operations())

    def reads(self) -> list[Any]:
        """Returns the values read from the variables."""
        return [op.outputs[0] for op in self._operations(self._variables) if op.type in _READS and op.outputs]

    def writes(self) -> list[Any]:
        """Returns the operations that change the first changed variable."""
        found = ([op for op in self._operations([v]) if op.type not in _READS] for v in self._variables)
        return next(filter(None, found), [])

    def _operations(self, variables: Sequence[Any]) -> list[Any]:
        """Returns the operations on some variables since the beginning."""
        handles = {id(variable.handle) for variable in variables}
        inner = {handle.name for outer, handle in self._graph.captures if id(outer) in handles}
        new = self._graph.get_operations()[self._before :]
        return [op for op in new if any(tensor.name in inner for tensor in op.inputs)]


class Stages:
    """The stages of one update in the graph that is being recorded, which begins now."""

    def __init__(self) -> None:
        """Reads the clock."""
        self._graph = tf.compat.v1.get_default_graph()
        self._clocks: list[Any] = []
        self._read_clock([])

    def end_reading(self, values: Sequence[Any]) -> None:
        """Reads the clock once all values read from variables have arrived."""
        # An operation that takes the values and only checks `True`. A control dependency on the reads would cost
        # another message from the server, and would not wait for the arrival of the values.
        come = tf.raw_ops.Assert(condition=True, data=list(values), summarize=1) if values else None
        self._read_clock([] if come is None else [self._apart(come)])

    def end_computing(self, gradients: Sequence[Any]) -> None:
        """Reads the clock once all gradients are computed."""
        self._read_clock([g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients if g is not None])

    def seconds(self) -> list[Any]:
        """Returns the seconds of reading and of computing, float32 each."""
        began, read, computed = self._clocks
        return [tf.cast(read - began, tf.float32), tf.cast(computed - read, tf.float32)]

    def _read_clock(self, after: Sequence[Any]) -> None:
        with tf.control_dependencies([*self._clocks[-1:], *after]):
            clock = tf.timestamp()
        self._apart(clock.op)
        self._clocks.append(clock)

    def _apart(self, operation: Any) -> Any:
        """Returns an operation that waits only for its own dependencies.

        Automatic control dependencies would put it after all others with side effects, such as a `tf.py_function`.
        """
        self._graph.experimental_acd_manager.run_independently(operation)
        return operation


class StaleUpdates:
    """Measures how many other updates were applied between an update's reading and its application.

    The parameter server of one variable, the model's first, counts the updates applied to it. An update reads the count
    together with the variables, and again when its gradients have been applied there. Both stay on the server, in a
    table for each execution that measures: a number transferred in each update would cost as much as a variable.
    """

    def __init__(self, variable: Any) -> None:
        """Makes the counter, eagerly. It is not a variable of the strategy, which would place and save it."""
        self._device = variable.device
        with tf.init_scope(), tf.device(self._device):
            self._applied = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=(), shared_name="sparktf_applied")
            tf.raw_ops.AssignVariableOp(resource=self._applied, value=tf.zeros((), tf.int64))

    def begin(self) -> Any:
        """Returns the table of an execution."""
        with tf.device(self._device):
            return tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.int64, value_dtype=tf.int64)

    def read(self) -> Any:
        """Returns the number of updates applied so far, on the server; for the beginning of an update."""
        return tf.raw_ops.ReadVariableOp(resource=self._applied, dtype=tf.int64)

    def note(self, table: Any, before: Any, writes: Sequence[Any]) -> None:
        """Notes the staleness of an update when it is applied.

        Args:
            before: The result of `read` when it began.
            writes: The operations that apply it to a variable of the model.
        """
        with tf.device(self._device), tf.control_dependencies([before, *writes]):
            now = self.read()
            # Two updates may read the same number, but never two of one execution.
            tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=now, values=now - before)
        self.count(writes)

    def count(self, writes: Sequence[Any]) -> None:
        """Only counts an update when it is applied; see `note`."""
        with tf.device(self._device), tf.control_dependencies(list(writes)):
            tf.raw_ops.AssignAddVariableOp(resource=self._applied, value=tf.ones((), tf.int64))

    def end(self, table: Any) -> Any:
        """Returns the staleness of each update of an execution, int64 [updates]."""
        with tf.device(self._device):
            _, stale = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.int64)
        return stale
