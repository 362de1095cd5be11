"""Tracing of a model without rows: it makes its variables, and computes nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import tensorflow as tf

from sparktf.trainer.model.variable_names import layers_of


def traced(function: Callable[[], Any]) -> Any:
    """Traces a function of a built model, without running it; returns its result, of symbolic tensors.

    A made-up row might be refused: a vocabulary without unknown entries, or an image decoder, takes no empty string.
    """
    found: list[Any] = []
    tf.function(lambda: found.append(function()), autograph=False).get_concrete_function()
    return found[-1]


def build_layers(model: Any, x: Callable[[], Any]) -> None:
    """Builds the layers of a model, such as a subclassed one, by a call with made-up rows, which `x` returns.

    The call is eager: a tensor that a layer keeps of a traced call would be lost with its graph. If the model refuses
    the rows, the remaining layers are built while it is traced, as in Keras's `fit`.
    """
    if not all(getattr(layer, "built", True) for layer in layers_of(model)):
        with suppress(tf.errors.OpError):
            model(x(), training=False)


def traced_in_scope(function: Callable[[], Any], flavour: str) -> Any:
    """As `traced`, for a function that makes variables: under a strategy Keras 3 makes all replicas' afterwards.

    Inside a trace TensorFlow could not copy the first replica's values to the others.
    """
    if flavour != "keras" or not tf.distribute.has_strategy():
        return traced(function)
    with importlib.import_module("keras").StatelessScope(), recording():
        return function()


def recording() -> Any:
    """Records operations in a graph that is never run; variables are made nevertheless."""
    return tf.__internal__.FuncGraph("recorded").as_default()
