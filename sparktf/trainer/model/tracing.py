"""A model that is looked at without a row: what it makes at its first call is made, and nothing is computed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import tensorflow as tf

from sparktf.trainer.model.variable_names import layers_of


def traced(function: Callable[[], Any]) -> Any:
    """Has TensorFlow record what a function does with a built model, and does not run it.

    A made-up row would be no row of the user's: a vocabulary without a place for unknown entries, or a decoder of
    images, takes no empty text.

    Returns:
        What the function returned, of tensors that have no value.
    """
    found: list[Any] = []
    tf.function(lambda: found.append(function()), autograph=False).get_concrete_function()
    return found[-1]


def build_layers(model: Any, x: Callable[[], Any]) -> None:
    """Builds the layers of a model that has some which are not, such as a subclassed one, by a call.

    What a layer keeps of a call may be a tensor, which would be lost with the graph that it was recorded in. So the
    call is made, with a made-up row; where no such row is taken, what is left is built as Keras's `fit` does it: while
    the model is recorded.

    Args:
        x: Returns what the model is called with.
    """
    if not all(getattr(layer, "built", True) for layer in layers_of(model)):
        with suppress(tf.errors.OpError):
            model(x(), training=False)


def traced_in_scope(function: Callable[[], Any], flavour: str) -> Any:
    """Does as `traced` for what makes variables: under a strategy Keras 3 makes those of all replicas afterwards.

    Inside of a trace TensorFlow could not take over the first replica's values for the others'.
    """
    if flavour != "keras" or not tf.distribute.has_strategy():
        return traced(function)
    with importlib.import_module("keras").StatelessScope(), recording():
        return function()


def recording() -> Any:
    """Has what TensorFlow is asked to do be recorded, in a graph that nobody runs; variables are made nevertheless."""
    return tf.__internal__.FuncGraph("recorded").as_default()
