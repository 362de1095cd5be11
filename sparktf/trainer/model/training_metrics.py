"""The compiled metrics of the rows of an epoch, each as it was trained, over all workers: those of Keras's History."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.trackables import value_of


class TrainingMetrics:
    """Reads the metrics that updates have added rows to: see `UserModel.measure`."""

    def __init__(self, model: UserModel, exchange: Exchange, *, distributed: bool) -> None:
        """Reads nothing yet.

        Args:
            distributed: The strategy itself sums the metrics' variables over all replicas, when they are read.
        """
        self._model = model
        self._exchange = exchange
        self._distributed = distributed
        self._is_empty = not model.has_metrics

    def begin(self) -> None:
        """Forgets all rows, at the beginning of an epoch, or of the rest of one."""
        if not self._is_empty:
            self._model.model.reset_metrics()

    def take(self) -> dict[str, float]:
        """Returns the metrics since `begin`, without losses; called on all nodes that train together."""
        if self._is_empty:
            return {}
        if not self._distributed:
            self._sum([variable for metric in self._model.model.metrics for variable in metric.variables])
        return metric_values(self._model)

    def _sum(self, variables: list[Any]) -> None:
        with self._exchange.again():
            sums = self._exchange.sum([np.asarray(value_of(variable)) for variable in variables])
        for variable, total in zip(variables, sums, strict=True):
            variable.assign(total)


def metric_values(model: UserModel) -> dict[str, float]:
    """Returns the metrics of a model by their present states, without losses."""
    values = {name: float(value) for name, value in model.model.get_metrics_result().items()}
    losses = {"loss", *(metric.name for metric in model.loss_metrics())}
    return {name: value for name, value in values.items() if name not in losses}
