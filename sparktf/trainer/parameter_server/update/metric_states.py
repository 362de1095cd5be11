"""The states of the compiled metrics as values of an execution's graph, from the states of metrics without rows on.

Metrics' variables on a parameter server would cost a round trip for each update, and count the rows of executions that
break off. So the variables stay with the coordinator: an execution begins without rows, adds those of its updates, and
returns what it has added in the receipt of its rows. The sum over all receipts is the state of the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.ps_values import CachingVariable
from tensorflow.python.ops.variables import default_variable_creator_v2

from sparktf.feed.arrays.columns import Array
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import Tensors
from sparktf.trainer.model.trackables import tensorflow_variable, value_of
from sparktf.trainer.model.training_metrics import metric_values

MOST = 1 << 14
"""A model whose metrics have more numbers than that is not measured in training: each receipt has all of them."""


class MetricStates:
    """The states of a model's metrics within the graph that is being recorded.

    Attributes:
        unmeasured: Why the model's metrics are not measured; "" if they are, or if it has none.
    """

    def __init__(self, model: UserModel) -> None:
        """Measures nothing before `make`."""
        self.unmeasured = ""
        self._model = model
        self._variables: list[Any] = []
        self._others: list[Any] = []
        self._empty: list[Array] = []

    def make(self, rows: Tensors) -> None:
        """Makes the metrics' variables on the coordinator; called in a replica, in a graph that is never run.

        Args:
            rows: Example rows.
        """
        if not self._model.has_metrics:
            return
        y_pred = self._model.model(self._model.layout.x(rows), training=False)
        with _variables_on_the_coordinator():
            self._model.measure(rows, y_pred)
        ours = self._model.other_metrics()
        self._variables = _variables_of(ours)
        known = {id(variable) for variable in self._variables}
        self._others = [v for v in _variables_of(self._model.model.metrics) if id(v) not in known]
        self.unmeasured = self._unmeasured(rows, y_pred)
        if self.unmeasured:
            self._variables = []

    def _unmeasured(self, rows: Tensors, y_pred: Any) -> str:
        numbers = sum(int(np.prod(variable.shape)) for variable in self._variables)
        if numbers > MOST:
            return f"their states have {numbers:,} numbers, and no more than {MOST:,} travel with each execution"
        try:
            with self.in_use([tf.zeros(v.shape, v.dtype) for v in self._variables]):
                self._model.measure(rows, y_pred)
        except _UnmeasuredError:
            return "a metric changes its state within a condition, a loop or a tf.function, or by scattering"
        return ""

    def ready(self) -> None:
        """Takes the states of metrics without rows, eagerly, after `make`."""
        if self._variables:
            self._model.model.reset_metrics()
            self._empty = [value_of(variable) for variable in self._variables]

    def begin(self) -> list[Any]:
        """Returns the states without rows, for the beginning of an execution; an empty list if nothing is measured."""
        return [tf.constant(value) for value in self._empty]

    def added(self, states: Sequence[Any]) -> Any:
        """Returns the additions of an execution to the states, float64 [numbers]."""
        if not states:
            return tf.zeros(0, tf.float64)
        pairs = zip(states, self._empty, strict=True)
        return tf.concat(
            [tf.reshape(tf.cast(now, tf.float64) - empty.astype(np.float64), [-1]) for now, empty in pairs], 0
        )

    @contextmanager
    def in_use(self, states: list[Any]) -> Iterator[None]:
        """Has the metrics work on `states` in place of their variables, and replaces these by the new ones."""
        if not self._variables:
            yield
            return
        others = [tf.zeros(variable.shape, variable.dtype) for variable in self._others]
        held = [*((v, states, i) for i, v in enumerate(self._variables))]
        held += [(v, others, i) for i, v in enumerate(self._others)]
        stands = [_StandIn(variable, values, place) for variable, values, place in held]
        try:
            yield
        finally:
            for stand in stands:
                stand.leave()

    def values(self, added: Array) -> dict[str, float]:
        """Returns the metrics of the rows of some executions, without losses; called eagerly.

        Args:
            added: The sum of what they have added.
        """
        start = 0
        for variable, empty in zip(self._variables, self._empty, strict=True):
            part = added[start : start + empty.size].reshape(empty.shape)
            variable.assign((empty + part).astype(empty.dtype))
            start += empty.size
        return metric_values(self._model)


class _UnmeasuredError(Exception):
    """A metric changes its state in a graph within the one that is being recorded, or in part."""


_SCATTERING = ("scatter_add", "scatter_sub", "scatter_update", "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update")


class _StandIn:
    """Has a variable read and change a value of a graph in its place, until `leave`."""

    def __init__(self, variable: Any, values: list[Any], place: int) -> None:
        self._graph = tf.compat.v1.get_default_graph()
        self._dtype = variable.dtype
        self._shape = variable.shape
        self._values, self._place = values, place
        self._replaced = [variable, variable.get()] if isinstance(variable, CachingVariable) else [variable]
        for one in self._replaced:
            one.value = one.read_value = self._value
            one.assign = self._assign
            one.assign_add = lambda delta, *_, **__: self._assign(self._value() + self._tensor(delta))
            one.assign_sub = lambda delta, *_, **__: self._assign(self._value() - self._tensor(delta))
            for name in _SCATTERING:
                setattr(one, name, self._refuse)

    def leave(self) -> None:
        for one in self._replaced:
            for name in ("value", "read_value", "assign", "assign_add", "assign_sub", *_SCATTERING):
                delattr(one, name)

    def _value(self, *_: Any, **__: Any) -> Any:
        return self._values[self._place]

    def _assign(self, value: Any, *_: Any, **__: Any) -> Any:
        if tf.compat.v1.get_default_graph() is not self._graph:
            raise _UnmeasuredError
        value = tf.ensure_shape(self._tensor(value), self._shape)
        self._values[self._place] = value
        return value

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _UnmeasuredError

    def _tensor(self, value: Any) -> Any:
        return tf.convert_to_tensor(value, self._dtype)


def _variables_of(metrics: Sequence[Any]) -> list[Any]:
    return [tensorflow_variable(variable) for metric in metrics for variable in metric.variables]


@contextmanager
def _variables_on_the_coordinator() -> Iterator[None]:
    with tf.init_scope():  # where Keras 3 makes variables
        outer = tf.compat.v1.get_default_graph()
    with outer._variable_creator_scope(_on_the_coordinator), tf.variable_creator_scope(_on_the_coordinator):
        yield


def _on_the_coordinator(next_creator: Any, **arguments: Any) -> Any:
    """Makes a variable without asking the strategy, which would put it on a parameter server."""
    del next_creator
    with tf.device(None), tf.device("CPU:0"):
        return default_variable_creator_v2(None, **arguments)
