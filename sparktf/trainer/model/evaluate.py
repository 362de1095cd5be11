"""Evaluation over all workers, with the results of a single process.

A copy of the model outside of the strategy is evaluated, so that workers may have different numbers of rows; the states
of all metrics are summed over the workers at the end, as tf.distribute does.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparktf.feed.arrays.columns import row_count
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import Tensors, rows_of, signature, to_tensors


class RowSource(Protocol):
    """The rows of an evaluation."""

    def next_rows(self, rows: int) -> Any:
        """Returns up to this many rows, none at the end."""


class Evaluator:
    """Evaluates one model on this worker's share of a stream."""

    def __init__(self, model: UserModel, exchange: Exchange, batch_size: int) -> None:
        self._model = model
        self._exchange = exchange
        self._batch_size = batch_size
        # `warm_up` traces it even on a worker that never gets a row: all workers need the same metric states.
        asked = [signature(model.spec), tf.TensorSpec((), tf.int32)]
        self._step = tf.function(self._evaluate, input_signature=asked, autograph=False)

    def evaluate(self, feed: RowSource) -> tuple[dict[str, float], int]:
        """Returns the metrics (first "loss") and the rows, over all workers; called on each, even without rows."""
        self._model.model.reset_metrics()
        names = self._losses()
        sums = np.zeros(len(names) + 1)  # the sum of each loss over rows, and last the rows
        while n := row_count(columns := feed.next_rows(self._batch_size)):
            sums += n * np.append(self._step(to_tensors(columns), n), 1.0)
        *losses, rows = self._over_all(sums)
        values = {name: float(loss / max(rows, 1.0)) for name, loss in zip(names, losses, strict=True)}
        for name, value in self._model.model.get_metrics_result().items():
            values.setdefault(name, float(value))
        return values, int(rows)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _evaluate(self, tensors: Tensors, n: Any) -> Any:
        """Returns the means of all losses over the rows, and adds the rows to the metrics."""
        rows = rows_of(tensors, 0, n)
        layout = self._model.layout
        y_pred = self._model.model(layout.x(rows), training=False)
        loss = self._model.compute_loss(rows, y_pred, training=False)
        self._model.model.compute_metrics(layout.x(rows), layout.y(rows), y_pred, layout.sample_weight(rows))
        losses = [loss]
        for metric in self._model.output_losses():
            losses.append(metric.result())
            metric.reset_state()
        return tf.stack([tf.cast(loss, tf.float32) for loss in losses])

    def names(self) -> list[str]:
        """Returns the names of the metrics, once `warm_up` has made them."""
        return list(dict.fromkeys([*self._losses(), *self._model.model.get_metrics_result()]))

    def _losses(self) -> list[str]:
        return ["loss", *(metric.name for metric in self._model.output_losses())]

    def _over_all(self, sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Returns the sum of an array over the nodes, and makes each metric's state its sum over them."""
        variables = self.variables()
        summed, *states = self._exchange.sum([sums, *(np.asarray(variable) for variable in variables)])
        for variable, state in zip(variables, states, strict=True):
            variable.assign(state)
        return summed

    def variables(self) -> list[Any]:
        """Returns the state variables of all metrics, in the same order on every worker."""
        return [v for metric in self._model.model.metrics for v in metric.variables]

    def warm_up(self) -> None:
        """Creates the metrics' variables."""
        self._step.get_concrete_function()
        self._model.model.reset_metrics()
