"""A model that is looked at without a row: what it makes at its first call is made, and nothing is computed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def traced(function: Callable[[], Any]) -> Any:
    """Has TensorFlow record what a function does, as Keras's own `fit` has it record a step, and does not run it.

    A made-up row would be no row of the user's: a vocabulary without a place for unknown entries, or a decoder of
    images, takes no empty text.

    Returns:
        What the function returned, of tensors that have no value.
    """
    found: list[Any] = []
    tf.function(lambda: found.append(function()), autograph=False).get_concrete_function()
    return found[-1]


def built(function: Callable[[], Any], flavour: str) -> Any:
    """Does as `traced` for what makes variables: under a strategy Keras 3 makes those of all replicas afterwards.

    Inside of a trace TensorFlow could not take over the first replica's values for the others'.
    """
    if flavour != "keras" or not tf.distribute.has_strategy():
        return traced(function)
    with importlib.import_module("keras").StatelessScope(), recorded():
        return function()


def recorded() -> Any:
    """Has what TensorFlow is asked to do be recorded, in a graph that nobody runs; variables are made nevertheless."""
    return tf.__internal__.FuncGraph("recorded").as_default()
