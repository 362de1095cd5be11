"""The moving averages of weights that an optimizer keeps beside them (`use_ema`): what is evaluated and exported.

Training goes on with the weights themselves, which checkpoints hold as well. Keras's own `fit` puts the averages in
their place at its end, by `finalize_variable_values`.
"""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow as tf

from sparktf.trainer.model.trackables import flavour_of, tensorflow_variable


def keeps_averages(model: Any) -> bool:
    """Whether the optimizer of a compiled model keeps averages."""
    return bool(getattr(getattr(model, "optimizer", None), "use_ema", False))


def build_averages(model: Any) -> None:
    """Has an optimizer that does not train keep averages all the same, and nothing else for each weight."""
    base = importlib.import_module(flavour_of([model])).optimizers.Optimizer
    base.build(model.optimizer, model.trainable_variables)


def begin_averages(model: Any) -> None:
    """Has the averages begin with the weights that there are.

    Keras 3 makes its first ones of the first update, whatever they were before; where several workers make updates at a
    time, more than one of them may find itself the first.
    """
    for variable, average in _pairs(model):
        _assign(average, variable)


def take_averages(target: Any, source: Any) -> None:
    """Gives the weights of a built model the averages of another one, or its own, if there are any."""
    for (variable, _), (_, average) in zip(_pairs(target), _pairs(source), strict=True):
        _assign(variable, average)


def copy_averages(target: Any, source: Any) -> None:
    """Gives a model's averages the values of another one's, one after the other: all of them twice may be too much."""
    for (_, ours), (_, theirs) in zip(_pairs(target), _pairs(source), strict=True):
        _assign(ours, theirs)


def average_in_place(model: Any) -> None:
    """Has an update compute the averages where they are, on the parameter servers: neither they nor weights cross."""
    if keeps_averages(model) and flavour_of([model]) == "keras":  # tf_keras does so by itself
        model.optimizer._update_model_variables_moving_average = lambda _: _update(model)


def _update(model: Any) -> None:
    optimizer = model.optimizer
    for variable, average in _pairs(model):
        ours, value = tensorflow_variable(average), tensorflow_variable(variable)
        with tf.device(ours.device):
            is_first = tf.equal(tensorflow_variable(optimizer.iterations), 0)
            momentum = tf.where(is_first, tf.zeros((), ours.dtype), tf.constant(optimizer.ema_momentum, ours.dtype))
            ours.assign(momentum * ours + (1 - momentum) * value)


def _pairs(model: Any) -> list[tuple[Any, Any]]:
    """Returns each weight that has an average, with it."""
    if not keeps_averages(model):
        return []
    pairs = zip(model.trainable_variables, model.optimizer._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in pairs if average is not None]


def _assign(target: Any, source: Any) -> None:
    tensorflow_variable(target).assign(tf.convert_to_tensor(tensorflow_variable(source)))
