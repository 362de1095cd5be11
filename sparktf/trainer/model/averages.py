"""The moving averages of weights that an optimizer keeps (`use_ema`), which are evaluated and exported.

Training continues with the weights themselves, which checkpoints also have. Keras's `fit` replaces the weights by the
averages at its end, in `finalize_variable_values`.
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
    """Makes only the averages of an optimizer that does not train, without its slots."""
    base = importlib.import_module(flavour_of([model])).optimizers.Optimizer
    base.build(model.optimizer, model.trainable_variables)


def begin_averages(model: Any) -> None:
    """Initializes the averages with the current weights.

    Keras 3 overwrites them at the first update; if several workers make updates at a time, more than one may see itself
    as the first.
    """
    for variable, average in _pairs(model):
        _assign(average, variable)


def take_averages(target: Any, source: Any) -> None:
    """Sets the weights of a built model to the averages of another one, or its own, if there are any."""
    for (variable, _), (_, average) in zip(_pairs(target), _pairs(source), strict=True):
        _assign(variable, average)


def copy_averages(target: Any, source: Any) -> None:
    """Copies a model's averages one at a time: two copies of all may not fit into memory."""
    for (_, ours), (_, theirs) in zip(_pairs(target), _pairs(source), strict=True):
        _assign(ours, theirs)


def average_in_place(model: Any) -> None:
    """Makes updates compute the averages on the parameter servers, so that neither they nor weights are transferred."""
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
    """Returns the pairs of weight and average."""
    if not keeps_averages(model):
        return []
    pairs = zip(model.trainable_variables, model.optimizer._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in pairs if average is not None]


def _assign(target: Any, source: Any) -> None:
    tensorflow_variable(target).assign(tf.convert_to_tensor(tensorflow_variable(source)))
