"""Lazy updates: only the rows in use are updated, in tables and in the optimizer's slots.

Most Keras optimizers update the whole table each time. Here the gradients of a row that is used several times are
summed first; then the row and its slots are gathered, updated and scattered back. Unused rows are not touched: their
momenta do not decay.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.layers.model_tables import sharded_layers
from sparktf.layers.sharded import Sharded

_WHOLE_TABLE_OPTIONS = {
    "clipnorm": "clips each shard by itself: use global_clipnorm or clipvalue",
    "use_ema": "averages the whole table in each update: leave it out",
    "loss_scale_factor": "divides the whole table's gradient: leave it out",
    "gradient_accumulation_steps": "keeps a gradient of the whole table: leave it out",
}


class RowGradient(tf.IndexedSlices):  # type: ignore[misc]
    """A gradient with distinct rows."""


def update_rows(model: Any, optimizer: Any = None) -> None:
    """Makes an optimizer update only the rows in use of the model's ShardedEmbeddings.

    A run does this with each compiled model. If you train with `model.fit` or your own loop, call it once after the
    model is built; it changes nothing for a model without such layers.

    Args:
        optimizer: Updates the model's variables. Default: the optimizer that the model is compiled with.

    Raises:
        ModelContractError: the optimizer cannot update rows, or has an option that needs the whole table.
        ValueError: a layer is not built yet.
    """
    layers = [layer for layer in sharded_layers(model) if layer.trainable]
    if unbuilt := [layer.name for layer in layers if not layer.shard_variables()]:
        raise ValueError(f"layer '{unbuilt[0]}' has no variables yet: build or call the model first")
    if layers:
        RowUpdates(model.optimizer if optimizer is None else optimizer, layers)


class RowUpdates:
    """Replaces an optimizer's clipping, and its update of the shards of some layers."""

    def __init__(self, optimizer: Any, layers: Sequence[Any]) -> None:
        """Changes the optimizer; the layers are built.

        Raises:
            ModelContractError: see `update_rows`.
        """
        self._update = check_optimizer(optimizer, layers)
        self._optimizer = optimizer
        self._shards = {optimizer._var_key(v) for layer in layers for v in layer.shard_variables()}
        self._update_whole = optimizer.update_step
        optimizer._clip_gradients = self.clip
        optimizer.update_step = self.update_step
        if hasattr(optimizer, "_deduplicate_sparse_grad"):  # tf_keras
            optimizer._deduplicate_sparse_grad = list
            optimizer.jit_compile = False  # the number of rows is unknown at compile time

    def clip(self, gradients: Sequence[Any]) -> list[Any]:
        """Sums sparse gradients by row, and clips all by the optimizer's settings; sparse ones stay sparse."""
        optimizer = self._optimizer
        gradients = [summed(g) if _has_rows_twice(g) else g for g in gradients]
        if optimizer.global_clipnorm:
            norm = tf.linalg.global_norm(gradients)
            scale = optimizer.global_clipnorm / tf.maximum(norm, optimizer.global_clipnorm)
            return [_map_values(g, lambda values: values * tf.cast(scale, values.dtype)) for g in gradients]
        if limit := optimizer.clipvalue:
            return [_map_values(g, lambda values: tf.clip_by_value(values, -limit, limit)) for g in gradients]
        return gradients

    def update_step(self, gradient: Any, variable: Any, *rate: Any) -> None:
        """Updates a variable, or the rows in use of a shard; Keras 3 passes the learning rate, too."""
        optimizer = self._optimizer
        key = optimizer._var_key(variable)
        if key not in self._shards or not isinstance(gradient, tf.IndexedSlices):
            self._update_whole(gradient, variable, *rate)
            return
        if not isinstance(gradient, RowGradient):  # an all-reduce after the clipping has joined several
            gradient = summed(gradient)
        indices = getattr(optimizer, "_trainable_variables_indices", None) or optimizer._index_dict
        (learning_rate,) = rate or (optimizer.learning_rate,)
        self._update(ShardRows(optimizer, variable, indices[key], gradient), tf.cast(learning_rate, variable.dtype))


class ShardRows:
    """The rows of one shard that an update is for, and its gradient for them."""

    def __init__(self, optimizer: Any, variable: Any, index: int, gradient: Any) -> None:
        self.optimizer = optimizer
        self.gradient = tf.cast(gradient.values, variable.dtype)
        self._variable = variable
        self._index = index
        self._indices = gradient.indices

    def slot(self, name: str, change: Callable[[Any], Any]) -> Any:
        """Changes these rows of one of the optimizer's slots; returns the new values."""
        slot = getattr(self.optimizer, name)[self._index]
        slot = slot if isinstance(slot, tf.Variable) else slot.value
        changed = change(tf.gather(slot, self._indices))
        slot.scatter_update(tf.IndexedSlices(changed, self._indices))
        return changed

    def subtract(self, values: Any) -> None:
        """Subtracts from these rows of the table."""
        self._variable.scatter_sub(tf.IndexedSlices(values, self._indices))


def _sgd(rows: ShardRows, rate: Any) -> None:
    step = rate * rows.gradient
    momentum = rows.optimizer.momentum
    if momentum:
        moved = rows.slot("momentums", lambda m: momentum * m - step)
        step = step - momentum * moved if rows.optimizer.nesterov else -moved
    rows.subtract(step)


def _adagrad(rows: ShardRows, rate: Any) -> None:
    sums = rows.slot("_accumulators", lambda a: a + tf.square(rows.gradient))
    rows.subtract(rate * rows.gradient / tf.sqrt(sums + rows.optimizer.epsilon))


def _adam(rows: ShardRows, rate: Any) -> None:
    optimizer, gradient = rows.optimizer, rows.gradient
    count = tf.cast(tf.convert_to_tensor(optimizer.iterations) + 1, gradient.dtype)
    beta_1, beta_2 = tf.cast(optimizer.beta_1, gradient.dtype), tf.cast(optimizer.beta_2, gradient.dtype)
    correction = tf.sqrt(1 - tf.pow(beta_2, count))
    m = rows.slot("_momentums", lambda m: m + (gradient - m) * (1 - beta_1))
    v = rows.slot("_velocities", lambda v: v + (tf.square(gradient) - v) * (1 - beta_2))
    if optimizer.amsgrad:
        greatest = v
        v = rows.slot("_velocity_hats", lambda v_hat: tf.maximum(v_hat, greatest))
    # In tf_keras only.
    epsilon = optimizer.epsilon * (correction if getattr(optimizer, "adaptive_epsilon", False) else 1)
    rows.subtract(rate * correction / (1 - tf.pow(beta_1, count)) * m / (tf.sqrt(v) + epsilon))


_UPDATES: dict[str, Callable[[ShardRows, Any], None]] = {
    "SGD": _sgd,
    "Adagrad": _adagrad,
    "Adam": _adam,
    "AdamW": _adam,
}


def check_optimizer(optimizer: Any, layers: Sequence[Sharded]) -> Callable[[ShardRows, Any], None]:
    """Returns the function that updates rows as the optimizer does.

    Raises:
        ModelContractError: names the layer and the remedy.
    """
    kind, layer = type(optimizer), f"model: layer '{layers[0].name}' is a ShardedEmbedding"
    for option, why in _WHOLE_TABLE_OPTIONS.items():
        if getattr(optimizer, option, None):
            raise ModelContractError(f"{layer}, and {option} of {kind.__name__} {why}")
    if optimizer.weight_decay is not None and any(
        optimizer._use_weight_decay(variable) for layer in layers for variable in layer.shard_variables()
    ):
        raise ModelContractError(
            f"{layer}, and weight_decay of {kind.__name__} takes the whole table in each update: exclude it by "
            "optimizer.exclude_from_weight_decay(var_names=['shard_'])"
        )
    for flavour in ("keras", "tf_keras"):
        for name, update in _UPDATES.items() if flavour in sys.modules else ():
            if kind.update_step is getattr(sys.modules[flavour].optimizers, name).update_step:
                return update
    raise ModelContractError(f"{layer}, whose rows {kind.__name__} does not update one by one: use {_list(_UPDATES)}")


def _list(names: Sequence[str] | dict[str, Any]) -> str:
    *some, last = names
    return f"{', '.join(some)} or {last}"


def _has_rows_twice(gradient: Any) -> bool:
    """Whether a gradient may have a row twice."""
    return isinstance(gradient, tf.IndexedSlices) and not isinstance(gradient, RowGradient)


def summed(gradient: Any) -> RowGradient:
    """Returns a sparse gradient with distinct rows, each the sum of its values in the given one."""
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return RowGradient(values, rows, gradient.dense_shape)


def _map_values(gradient: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return RowGradient(change(gradient.values), gradient.indices, gradient.dense_shape)
    return None if gradient is None else change(gradient)
