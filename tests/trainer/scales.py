"""Models whose last layer and loss say, or do not say, whether their output is logits."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any


def said_of_outputs(flavour: str) -> dict[str, bool | None]:
    """Returns what is found out about the output of each model."""
    keras, tf = importlib.import_module(flavour), importlib.import_module("tensorflow")
    gives_logits = importlib.import_module("sparktf.trainer.model.logits").gives_logits
    layers, losses = keras.layers, keras.losses
    sparse, binary = losses.SparseCategoricalCrossentropy, losses.BinaryCrossentropy
    sigmoid = tf.sigmoid if flavour == "tf_keras" else keras.ops.sigmoid

    def own(y: Any, scores: Any) -> Any:
        return tf.reduce_sum(scores, -1)

    class Subclassed(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.last = layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.last(x)

    def of(last: Callable[[Any], Any], loss: Any, *, nested: bool = False) -> bool | None:
        x = keras.Input((2,))
        model = keras.Model(x, last(x))
        if nested:
            outer = keras.Input((2,))
            model = keras.Model(outer, model(outer))
        return compiled(model, loss)

    def compiled(model: Any, loss: Any) -> bool | None:
        if loss is not None:
            model.compile("sgd", loss)
        found: bool | None = gives_logits(model)
        return found

    return {
        "softmax": of(layers.Dense(3, "softmax"), "sparse_categorical_crossentropy"),
        "softmax, and a loss from logits": of(layers.Dense(3, "softmax"), sparse(from_logits=True)),
        "softmax in a layer of its own": of(lambda x: layers.Softmax()(layers.Dense(3)(x)), own),
        "softmax as an Activation": of(lambda x: layers.Activation("softmax")(layers.Dense(3)(x)), own),
        "softmax in a nested model": of(layers.Dense(3, "softmax"), own, nested=True),
        "softmax in a Sequential": compiled(keras.Sequential([keras.Input((2,)), layers.Dense(3, "softmax")]), own),
        "sigmoid": of(layers.Dense(1, "sigmoid"), "mse"),
        "sigmoid as an operation": of(lambda x: sigmoid(layers.Dense(1)(x)), own),
        "a loss from logits": of(layers.Dense(3), sparse(from_logits=True)),
        "a loss from logits, for two": of(layers.Dense(1), [binary(from_logits=True)]),
        "a function from logits": of(layers.Dense(1), functools.partial(losses.binary_crossentropy, from_logits=True)),
        "a loss from probabilities by name": of(layers.Dense(3), "sparse_categorical_crossentropy"),
        "a loss from probabilities": of(layers.Dense(1), binary()),
        "a subclass, and a loss from logits": compiled(Subclassed(), sparse(from_logits=True)),
        "a loss of the user's": of(layers.Dense(1), own),
        "a subclass, and a loss of the user's": compiled(Subclassed(), own),
        "a regression": of(layers.Dense(1), "mse"),
        "a regression's object": of(layers.Dense(1), losses.MeanSquaredError()),
        "not compiled": of(layers.Dense(1), None),
        "several outputs": of(lambda x: [layers.Dense(1, "sigmoid")(x), layers.Dense(1)(x)], ["mse", "mse"]),
    }
