"""The closure of a worker: updates of the model with rows of the worker's process."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sparktf.layers.model_tables import sharded_layers
from sparktf.trainer.model.averages import average_in_place
from sparktf.trainer.model.contract import naming_tensors
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import Tensors, example, rows_of
from sparktf.trainer.model.tracing import recording
from sparktf.trainer.model.trackables import count_atomically
from sparktf.trainer.parameter_server.update.metric_states import MetricStates
from sparktf.trainer.parameter_server.update.packed_rows import PackedRows
from sparktf.trainer.parameter_server.update.packed_variables import PackedVariables, small
from sparktf.trainer.parameter_server.update.packing import bring_rows, mark_trained
from sparktf.trainer.parameter_server.update.stages import Stages, StaleUpdates, Touched

_CLIPS = ("clipnorm", "clipvalue", "global_clipnorm")
"""Settings of an optimizer."""


class Closure:
    """A function for any worker: it takes rows, makes updates of them, and returns receipts.

    TensorFlow chooses the worker, and may run it again after it broke off.

    Attributes:
        function: Schedule it with the result of `packing.asked_for`; returns the receipts as JSON. It measures its
            stages, and the staleness of its updates.
        metrics: The states of the model's metrics.
        traced_s: Seconds that tracing it took.
    """

    def __init__(self, strategy: Any, model: UserModel, *, batch_size: int) -> None:
        """Lets the model create its lazy variables, and traces the function; call it in the strategy's scope."""
        self._strategy = strategy
        self._model = model
        self._batch_size = batch_size
        self._replicas = int(strategy.num_replicas_in_sync)
        model.use_own_reduction()
        count_atomically([model.model])
        average_in_place(model.model)
        self._variables = model.trained()
        self._small: list[int] = []
        self.metrics = MetricStates(model)
        with naming_tensors(model.spec), recording():
            strategy.run(self._warm_up)
        self.metrics.ready()
        # Clipping would fetch the gradients back from the parameter servers.
        self._clips = any(getattr(model.optimizer, name, None) for name in _CLIPS)
        self._tables = [] if self._clips else [table for table in sharded_layers(model.model) if table.trainable]
        rows = {id(shard) for table in self._tables for shard in table.shard_variables()}
        self._others = [variable for variable in self._variables if id(variable) not in rows]
        self._stale = StaleUpdates(self._variables[0])
        began_s = time.monotonic()
        self.function = self._traced(self._run)
        self.traced_s = time.monotonic() - began_s

    def plain(self) -> Any:
        """Traces and returns a version of `function` that does not measure; call it once."""
        with self._strategy.scope(), naming_tensors(self._model.spec):
            return self._traced(self._run_plain)

    @staticmethod
    def _traced(run: Callable[[Any], Any]) -> Any:
        asked = tf.TensorSpec((None,), tf.int64)
        return without_handles(tf.function(run, input_signature=[asked], autograph=False).get_concrete_function())

    def _run(self, asked: Any) -> Any:
        rows, n, take = bring_rows(self._model.spec, asked)
        table = self._stale.begin()
        sums, metrics = self._updates(rows, n, self._update, table)
        # The loop is over when its sums are available: a graph's outputs wait for all its side effects.
        return mark_trained(take, sums, self._stale.end(table), metrics)

    def _run_plain(self, asked: Any) -> Any:
        rows, n, take = bring_rows(self._model.spec, asked)
        sums, metrics = self._updates(rows, n, self._update_plain, read=self._strategy.run(self._read))
        return mark_trained(take, sums, tf.zeros(0, tf.int64), metrics)

    def _updates(
        self, rows: Tensors, n: Any, make: Callable[..., Any], *args: Any, read: Sequence[Any] = ()
    ) -> tuple[Any, Any]:
        """Makes the updates of all rows.

        Args:
            make: Makes one update from rows, `args`, the states of metrics and the values read before; returns float32
                [3], its loss and the seconds of reading and of computing, the new states, and the values read for the
                next one.
            read: The values for the first update.

        Returns:
            float32 [3]: the sums over the rows of the loss, and of the seconds; and what the rows add to the metrics.
        """
        updates = (n + self._batch_size - 1) // self._batch_size

        # The loop is outside of `strategy.run`: inside, Keras 3 cannot apply gradients.
        def update(k: Any, sums: Any, states: list[Any], *read: Any) -> tuple[Any, ...]:
            start = k * self._batch_size
            stop = tf.minimum(start + self._batch_size, n)
            made, states, *after = self._strategy.run(make, args=(rows_of(rows, start, stop), *args, states, *read))
            return k + 1, sums + made * tf.stack([tf.cast(stop - start, tf.float32), 1.0, 1.0]), states, *after

        start = (tf.constant(0, tf.int64), tf.zeros(3), self.metrics.begin(), *read)
        _, sums, states, *_ = tf.while_loop(lambda k, *_: k < updates, update, start)
        return sums, self.metrics.added(states)

    def _read(self) -> list[Any]:
        return PackedVariables(self._variables, self._small).flat

    # AutoGraph is not needed here; Keras converts a layer's own `call` in the flavour that does so.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _update(self, rows: Tensors, table: Any, states: list[Any]) -> tuple[Any, ...]:
        touched, applied = Touched(self._variables), self._stale.read()
        stages, together = Stages(), PackedVariables(self._variables, self._small)
        alone = Touched(self._others)
        loss, gradients, read, states = self._gradients(rows, together, states)
        stages.end_reading([*read, *alone.reads()])
        stages.end_computing(gradients)
        self._apply(gradients, together)
        self._stale.note(table, applied, touched.writes())
        return tf.stack([loss / self._replicas, *stages.seconds()]), states

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _update_plain(self, rows: Tensors, states: list[Any], *read: Any) -> tuple[Any, ...]:
        touched = Touched(self._variables)
        together = PackedVariables(self._variables, self._small, read)
        loss, gradients, _, states = self._gradients(rows, together, states)
        self._apply(gradients, together)
        self._stale.count(touched.writes())
        # The values for the next update return from the servers that these gradients go to: one round trip for both.
        return tf.stack([loss / self._replicas, math.nan, math.nan]), states, *together.read()

    def _gradients(
        self, rows: Tensors, together: PackedVariables, states: Sequence[Any]
    ) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """Returns the loss, the gradients by all variables, the values that were read packed, and the metrics' states.

        Args:
            states: The states before the update.
        """
        tables, scale, after = PackedRows(self._tables), tf.constant(float(self._replicas)), list(states)
        with together.in_use(), tables.in_use(), self.metrics.in_use(after):
            values = [*together.values, tables.anchor]
            loss, found = self._model.gradients(rows, scale, values, measures=bool(after))
        count = len(self._variables)
        gradients = together.gradients(found[:count], found[count:-1])
        return loss, tables.gradients(self._variables, gradients), [*together.values, *tables.values], after

    def _apply(self, gradients: list[Any], together: PackedVariables) -> None:
        self._model.apply(gradients if self._clips else together.sent(gradients))

    def _warm_up(self) -> None:
        """Calls the model once, so that Keras makes its lazy loss and metric variables before the trace."""
        rows = example(self._model.spec)
        _, gradients = self._model.gradients(rows, tf.constant(1.0))
        self._small = small(self._variables, gradients)
        self._model.check_losses()
        self.metrics.make(rows)


def without_handles(function: Any) -> Any:
    """Returns an equal concrete function of one tensor that captures no handles of variables on parameter servers.

    TensorFlow sends all captured tensors with every call, some 140 bytes for a variable's handle. For a small model
    with its optimizer that is more than all else that an execution sends over the coordinator's link. So the servers
    keep the handles in a staging area, where the function finds them.
    """
    captured = function.captured_inputs
    held: dict[str, list[int]] = {}
    for number, tensor in enumerate(captured):
        device = tensor.device if tensor.dtype == tf.resource else ""
        if tf.DeviceSpec.from_string(device).job == "ps":
            held.setdefault(device, []).append(number)
    name = f"sparktf_handles_{uuid.uuid4().hex}"
    for device, numbers in held.items():
        with tf.device(device):
            tf.raw_ops.Stage(values=[captured[number] for number in numbers], shared_name=name)

    def call(argument: Any) -> Any:
        inputs = list(captured)
        for device, numbers in held.items():
            with tf.device(device):
                found = tf.raw_ops.StagePeek(index=0, dtypes=[tf.resource] * len(numbers), shared_name=name)
            for number, handle in zip(numbers, found, strict=True):
                inputs[number] = handle
        return function._call_flat([argument], inputs)

    (signature,) = function.structured_input_signature[0]
    return tf.function(call, input_signature=[signature], autograph=False).get_concrete_function()
