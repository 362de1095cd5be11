"""How stale updates are: told by the parameter server that applies them, once for each execution that measures.

The server holds how many updates it has applied. An update reads that with the variables, and again when its gradients
have been applied there. Both stay on the server, in a table of the execution's own: a number that crosses in each
update costs as much as a variable. What is counted is the truth about one variable, the model's first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class StaleUpdates:
    """Counts on the parameter server that holds a variable; all but the making is done in a worker's graph."""

    def __init__(self, variable: Any) -> None:
        """Makes the counter; to be called eagerly.

        It is none of the strategy's variables: nobody places or saves it.
        """
        self._device = variable.device
        with tf.init_scope(), tf.device(self._device):
            self._applied = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=(), shared_name="sparktf_applied")
            tf.raw_ops.AssignVariableOp(resource=self._applied, value=tf.zeros((), tf.int64))

    def begin(self) -> Any:
        """Returns the table of an execution."""
        with tf.device(self._device):
            return tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.int64, value_dtype=tf.int64)

    def read(self) -> Any:
        """Returns how many updates are applied, on the server: where an update begins."""
        return tf.raw_ops.ReadVariableOp(resource=self._applied, dtype=tf.int64)

    def note(self, table: Any, before: Any, writes: Sequence[Any]) -> None:
        """Notes an update when it is applied.

        Args:
            table: Its execution's.
            before: What `read` returned when it began.
            writes: The operations that apply it to the variable, or to another one of the model's.
        """
        with tf.device(self._device), tf.control_dependencies([before, *writes]):
            now = self.read()
            # Two may find the same number, and never of one execution.
            tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=now, values=now - before)
        self.count(writes)

    def count(self, writes: Sequence[Any]) -> None:
        """Counts an update when it is applied, which tells nothing of itself; the argument as of `note`."""
        with tf.device(self._device), tf.control_dependencies(list(writes)):
            tf.raw_ops.AssignAddVariableOp(resource=self._applied, value=tf.ones((), tf.int64))

    def end(self, table: Any) -> Any:
        """Returns of each update of an execution how many others were applied since it began, int64 [updates]."""
        with tf.device(self._device):
            _, stale = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.int64)
        return stale
