"""From the feed's columns to tensors: what crosses into a `tf.function`, and how a model sees a slice of it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sparktf.feature import Feature, FeedSpec
from sparktf.feed.columns import Columns, Strings

Tensors = dict[str, Any]
"""Feature key -> tensor [rows, *shape]; text is a pair (codes int32 [rows], distinct values string [n])."""


def signature(spec: FeedSpec) -> Tensors:
    """Returns the `tf.TensorSpec` of every feature, any number of rows."""
    return {feature.key: _spec(feature) for feature in spec.features}


def _spec(feature: Feature) -> Any:
    if feature.dtype == "string":
        return (tf.TensorSpec((None, *feature.shape), tf.int32), tf.TensorSpec((None,), tf.string))
    return tf.TensorSpec((None, *feature.shape), feature.dtype)


def to_tensors(columns: Columns) -> Tensors:
    """Returns the columns as tensors."""
    return {
        key: (tf.constant(column.codes), tf.constant(column.values, tf.string))
        if isinstance(column, Strings)
        else tf.convert_to_tensor(column)
        for key, column in columns.items()
    }


def decoded(tensors: Tensors) -> Tensors:
    """Returns all rows, text decoded to string tensors."""
    return {key: tf.gather(value[1], value[0]) if isinstance(value, tuple) else value for key, value in tensors.items()}


def rows_of(tensors: Tensors, start: Any, stop: Any) -> Tensors:
    """Returns rows `[start, stop)`, text decoded to string tensors; works in a graph."""
    return {
        key: tf.gather(value[1], value[0][start:stop]) if isinstance(value, tuple) else value[start:stop]
        for key, value in tensors.items()
    }


def example(spec: FeedSpec, rows: int = 1) -> Tensors:
    """Returns zeros (empty texts) of the feed's dtypes and shapes, to build a model with; text already decoded."""
    return {
        f.key: tf.fill((rows, *f.shape), "") if f.dtype == "string" else tf.zeros((rows, *f.shape), f.dtype)
        for f in spec.features
    }


def encoded_example(spec: FeedSpec) -> Tensors:
    """Returns one row of zeros as it crosses into a `tf.function`: text as codes and values."""
    text = {f.key for f in spec.features if f.dtype == "string"}
    return {
        key: (tf.zeros(value.shape, tf.int32), tf.constant([""])) if key in text else value
        for key, value in example(spec).items()
    }


class Layout:
    """How a batch is handed to one particular model: x, y and sample weights in the structures it expects.

    One input or output goes bare; several go as a dict of names, or as a list in the model's own order where its call
    returns a list.
    """

    def __init__(self, spec: FeedSpec, output_names: tuple[str, ...] = ()) -> None:
        self._spec = spec
        self._output_names = output_names
        self._outputs_are_list = False
        self._expand: frozenset[str] = frozenset()

    def fit_outputs(self, y_pred: Any) -> None:
        """Learns from one prediction whether outputs are a list, and which scalar targets need a trailing axis.

        A target `[batch]` beside a prediction `[batch, 1]` would broadcast to `[batch, batch]` in a loss written as a
        plain function, so it is made `[batch, 1]`, as Keras's own `fit` does.
        """
        self._outputs_are_list = isinstance(y_pred, (list, tuple))
        names = self._output_names or tuple(t.name for t in self._spec.targets)
        if isinstance(y_pred, dict):
            predictions = dict(y_pred)
        else:
            predictions = dict(zip(names, y_pred if self._outputs_are_list else [y_pred], strict=False))
        if len(self._spec.targets) == 1 and not self._outputs_are_list and not isinstance(y_pred, dict):
            predictions = {self._spec.targets[0].name: y_pred}
        self._expand = frozenset(
            t.key
            for t in self._spec.targets
            if t.shape == () and t.name in predictions and tuple(predictions[t.name].shape[1:]) == (1,)
        )

    def x(self, rows: Tensors) -> Any:
        inputs = {f.name: rows[f.key] for f in self._spec.inputs}
        return next(iter(inputs.values())) if len(inputs) == 1 else inputs

    def y(self, rows: Tensors) -> Any:
        targets = {
            t.name: tf.expand_dims(rows[t.key], -1) if t.key in self._expand else rows[t.key]
            for t in self._spec.targets
        }
        return self._outputs(targets, bare=len(targets) == 1 and not self._outputs_are_list)

    def sample_weight(self, rows: Tensors) -> Any:
        """Returns the sample weights, None where there are none."""
        weights = {w.name: rows[w.key] for w in self._spec.weights}
        if not weights:
            return None
        if "" in weights:  # one weight for all outputs
            if len(self._spec.targets) == 1 and not self._outputs_are_list:
                return weights[""]
            weights = {t.name: weights[""] for t in self._spec.targets}
        elif len(self._spec.targets) == 1 and not self._outputs_are_list:
            return next(iter(weights.values()))
        return self._outputs({t.name: weights.get(t.name) for t in self._spec.targets}, bare=False)

    def _outputs(self, by_name: dict[str, Any], *, bare: bool) -> Any:
        if bare:
            return next(iter(by_name.values()))
        if self._outputs_are_list:
            return [by_name.get(name) for name in self._output_names or by_name]
        return by_name
