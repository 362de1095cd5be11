"""What runs on a worker: updates of the model with the rows that its own process brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparktf.trainer.model.contract import naming_tensors
from sparktf.trainer.model.model import KerasModel, recorded
from sparktf.trainer.model.tensors import Tensors, example, rows_of
from sparktf.trainer.parameter_server.packing import DONE, ROWS, flat_specs, unflatten


class Closure:
    """A function that any worker can be given: it takes rows, makes updates of them, and answers receipts.

    It is not said which worker runs it, and it may be run again where it was broken off.

    Attributes:
        function: To be scheduled with `arguments`; returns the receipts as JSON.
    """

    def __init__(self, strategy: Any, model: KerasModel, *, batch_size: int) -> None:
        """Lets the model create its lazy variables, and traces the function; to be called in the strategy's scope.

        Args:
            batch_size: Rows of an update.
        """
        self._strategy = strategy
        self._model = model
        self._batch_size = batch_size
        self._replicas = int(strategy.num_replicas_in_sync)
        model.use_own_reduction()
        model.count_atomically()
        with naming_tensors(model.spec), recorded():
            strategy.run(self._warm_up)
        asked = tf.TensorSpec((None,), tf.int64)
        self.function = tf.function(self._run, input_signature=[asked], autograph=False).get_concrete_function()

    @staticmethod
    def arguments(epoch: int, updates: int, acknowledged: Sequence[tuple[int, int]]) -> tuple[Any]:
        """Returns what the function is called with, in one tensor: each one more would be a call of its own.

        Args:
            updates: It makes so many at most.
            acknowledged: Of each worker the incarnation, and the number of its last receipt that has come.
        """
        return (np.array([epoch, updates, *(number for pair in acknowledged for number in pair)], np.int64),)

    def _run(self, asked: Any) -> Any:
        spec = self._model.spec
        acknowledged = tf.reshape(asked[2:], (-1, 2))
        kinds = [flat.dtype for flat in flat_specs(spec)]
        *flat, n, take = tf.raw_ops.PyFunc(
            input=[asked[0], asked[1], acknowledged], token=ROWS, Tout=[*kinds, tf.int64, tf.int64]
        )
        n.set_shape(())
        take.set_shape(())
        rows = unflatten(spec, flat)
        total = self._updates(rows, n)
        # The loop is over when its loss is there: a graph's outputs wait for all that it changes.
        (receipts,) = tf.raw_ops.PyFunc(input=[take, total], token=DONE, Tout=[tf.string])
        receipts.set_shape(())
        return receipts

    def _updates(self, rows: Tensors, n: Any) -> Any:
        """Makes the updates of all rows; returns the sum of the loss over them."""
        updates = (n + self._batch_size - 1) // self._batch_size

        # Not inside of `strategy.run`: Keras 3 could not apply gradients there.
        def update(k: Any, total: Any) -> tuple[Any, Any]:
            start = k * self._batch_size
            stop = tf.minimum(start + self._batch_size, n)
            loss = self._strategy.run(self._update, args=(rows_of(rows, start, stop),))
            return k + 1, total + loss * tf.cast(stop - start, tf.float32)

        start = (tf.constant(0, tf.int64), tf.constant(0.0))
        return tf.while_loop(lambda k, _: k < updates, update, start)[1]

    # Nothing of ours is for AutoGraph; Keras converts a layer's own `call` where its flavour does so.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _update(self, rows: Tensors) -> Any:
        loss, gradients = self._model.gradients(rows, tf.constant(float(self._replicas)))
        self._model.apply(gradients)
        return loss / self._replicas

    def _warm_up(self) -> None:
        """Calls the model once, so that Keras makes its lazy loss and metric variables before the trace."""
        self._model.gradients(example(self._model.spec), tf.constant(1.0))
        self._model.check_losses()
