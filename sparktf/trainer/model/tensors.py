"""Converts the feed's columns to tensors for a `tf.function`, and slices of these to a model's batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.feature import Feature, FeedSpec
from sparktf.feed.arrays.columns import Array, Column, Columns, Ragged, Strings
from sparktf.feed.arrays.memory import ALIGNMENT

Tensors = dict[str, Any]
"""Feature key -> tensor [rows, *shape], or a ragged one; text is a pair (codes int32, distinct values string [n])."""


def signature(spec: FeedSpec) -> Tensors:
    """Returns the `tf.TensorSpec` of every feature, for any number of rows."""
    return {feature.key: _spec(feature) for feature in spec.features}


def _spec(feature: Feature) -> Any:
    if feature.dtype == "string":
        return (_rows_spec(feature, "int32"), tf.TensorSpec((None,), tf.string))
    return _rows_spec(feature, feature.dtype)


def _rows_spec(feature: Feature, dtype: str) -> Any:
    if feature.ragged:
        return tf.RaggedTensorSpec((None, None), dtype, ragged_rank=1, row_splits_dtype=tf.int64)
    return tf.TensorSpec((None, *feature.shape), dtype)


def decoded_signature(features: Iterable[Feature]) -> Tensors:
    """Returns the specification of `decoded` tensors of some features."""
    return {feature.key: _rows_spec(feature, feature.dtype) for feature in features}


def to_tensors(columns: Columns) -> Tensors:
    """Returns the columns as tensors, which share the columns' memory if possible, and keep it alive."""
    return {key: _to_tensor(column) for key, column in columns.items()}


def _to_tensor(column: Column) -> Any:
    if isinstance(column, Ragged):
        column = column.compact()
        if isinstance(column.values, Strings):
            return _to_ragged(column.values.codes, column.splits), tf.constant(column.values.values, tf.string)
        return _to_ragged(column.values, column.splits)
    if isinstance(column, Strings):
        return tf.constant(column.codes), tf.constant(column.values, tf.string)
    return in_place(column)


def in_place(array: Array) -> Any:
    """Returns a tensor over an array's memory if TensorFlow's kernels can use it; else over a copy.

    `tf.convert_to_tensor` always copies into new memory. Kernels may write to this memory, since the feed hands out
    each row once.
    """
    if array.ctypes.data % ALIGNMENT:
        return tf.convert_to_tensor(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _to_ragged(values: Array, splits: Array) -> Any:
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def decoded(tensors: Tensors) -> Tensors:
    """Returns all rows, text decoded to string tensors."""
    return {key: _decoded(value[1], value[0]) if isinstance(value, tuple) else value for key, value in tensors.items()}


def rows_of(tensors: Tensors, start: Any, stop: Any) -> Tensors:
    """Returns rows `[start, stop)`, text decoded to string tensors; works in a graph."""
    return {
        key: _decoded(value[1], value[0][start:stop]) if isinstance(value, tuple) else value[start:stop]
        for key, value in tensors.items()
    }


def _decoded(values: Any, codes: Any) -> Any:
    if isinstance(codes, tf.RaggedTensor):
        return codes.with_flat_values(tf.gather(values, codes.flat_values))
    return tf.gather(values, codes)


def example(spec: FeedSpec, rows: int = 1) -> Tensors:
    """Returns zeros and empty strings of the feed's dtypes and shapes, decoded; ragged ones have one value.

    For tracing only: a model may refuse such rows.
    """
    return {f.key: _example(f, rows) for f in spec.features}


def _example(feature: Feature, rows: int) -> Any:
    shape = (rows, 1) if feature.ragged else (rows, *feature.shape)
    values = tf.fill(shape, "") if feature.is_text else tf.zeros(shape, feature.dtype)
    return tf.RaggedTensor.from_tensor(values, row_splits_dtype=tf.int64) if feature.ragged else values


class Layout:
    """The structures of x, y and sample weights that a particular model expects.

    A single input or output is passed bare; several as a dict by name, or as a list if the model's call returns a list.
    """

    def __init__(
        self, spec: FeedSpec, output_names: tuple[str, ...] = (), class_weight: Mapping[int, float] | None = None
    ) -> None:
        """Takes the names of the outputs, if they are known, and the weights of classes in training.

        Raises:
            ModelContractError: classes have weights, and a row has several.
        """
        self._spec = spec
        self._classes = sorted((class_weight or {}).items())
        if self._classes and len(spec.targets[0].shape) > 1:
            target = spec.targets[0]
            raise ModelContractError(
                f"train.class_weight needs one class for each row, and data.targets.{target.name} has rows of shape "
                f"{target.shape}: weight the rows by data.sample_weight"
            )
        self._output_names = output_names
        self._outputs_are_list = False
        self._expand: frozenset[str] = frozenset()

    def fit_outputs(self, y_pred: Any) -> None:
        """Learns from one prediction whether outputs are a list, and which scalar targets need a trailing axis.

        A target `[batch]` beside a prediction `[batch, 1]` would broadcast to `[batch, batch]` in a loss written as a
        plain function, so it is made `[batch, 1]`, as Keras's own `fit` does.

        Raises:
            ModelContractError: the rank of an output is unknown.
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
            if t.shape == () and t.name in predictions and _is_column(t.name, predictions[t.name])
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

    def batch(self, rows: Tensors) -> tuple[Any, ...]:
        """Returns `(x, y)` or `(x, y, sample_weight)`, as hand-written loops get them."""
        x, y, weight = self.x(rows), self.y(rows), self.sample_weight(rows)
        return (x, y) if weight is None else (x, y, weight)

    def sample_weight(self, rows: Tensors, *, training: bool = False) -> Any:
        """Returns the sample weights, if there are any; in training those of classes."""
        if training and self._classes:
            weight = self._class_weight(rows[self._spec.targets[0].key])
            return self._outputs({self._spec.targets[0].name: weight}, bare=not self._outputs_are_list)
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

    def _class_weight(self, y: Any) -> Any:
        """Returns the weight of each row's class, float32 [rows], as Keras has it; of one-hot rows that of the 1."""
        if y.shape.rank == 2:
            y = y[:, 0] if y.shape[1] == 1 else tf.argmax(y, axis=1)
        classes = tf.cast(tf.round(tf.cast(y, tf.float64)), tf.int64)
        known = tf.constant([number for number, _ in self._classes], tf.int64)
        weights = tf.constant([weight for _, weight in self._classes], tf.float32)
        places = tf.minimum(tf.searchsorted(known, classes), len(self._classes) - 1)
        return tf.where(tf.gather(known, places) == classes, tf.gather(weights, places), 1.0)

    def _outputs(self, by_name: dict[str, Any], *, bare: bool) -> Any:
        if bare:
            return next(iter(by_name.values()))
        if self._outputs_are_list:
            return [by_name.get(name) for name in self._output_names or by_name]
        return by_name


def _is_column(name: str, prediction: Any) -> bool:
    if prediction.shape.rank is None:
        raise ModelContractError(
            f"model: the rank of output '{name}' is unknown before it is computed: give it a shape, by tf.ensure_shape "
            "if it comes from tf.py_function or tf.numpy_function"
        )
    return tuple(prediction.shape[1:]) == (1,)
