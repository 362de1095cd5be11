"""Models that ask tf.distribute for what other nodes' replicas have."""

from __future__ import annotations

import importlib
from typing import Any

from trainer.lake import CLASSES, NUMBERS


def build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """A model with a layer that asks, in its training, as `params["how"]` says.

    "all_reduce" and "all_gather" are the replica context's; "a mean" is a variable of that aggregation, which keeps
    values of the rows; "a mean when read" is one that tf.distribute aggregates when it is read; "a trained mean" is a
    weight that only the optimizer changes.
    """
    del assets
    how, keras = params["how"], importlib.import_module(params["flavour"])
    tf = importlib.import_module("tensorflow")
    mean = "mean" if params["flavour"] == "keras" else tf.VariableAggregation.MEAN

    class Asks(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            del shape
            options = {"aggregation": mean, "trainable": "trained" in how, "name": "centre"}
            if how == "a mean when read" and params["flavour"] == "keras":
                zeros = [0.0] * len(NUMBERS)
                self.centre = keras.Variable(zeros, dtype="float32", synchronization="on_read", **options)
            elif how == "a mean when read":
                options["synchronization"] = tf.VariableSynchronization.ON_READ
            if how.startswith("a ") and not hasattr(self, "centre"):
                self.centre = self.add_weight(shape=(len(NUMBERS),), initializer="zeros", **options)

        def call(self, numbers: Any, training: bool = False) -> Any:
            if "trained" in how:
                return numbers - self.centre
            if "mean" in how and training:
                self.centre.assign(0.9 * self.centre + 0.1 * tf.reduce_mean(numbers, axis=0))
                return numbers
            if how.startswith("all") and training:
                context = tf.distribute.get_replica_context()
                rows = tf.reduce_sum(numbers, axis=0, keepdims=True)
                summed = context.all_reduce("SUM", rows) if how == "all_reduce" else context.all_gather(rows, axis=0)
                return numbers - 0.01 * tf.reduce_sum(summed, axis=0)
            return numbers

        def compute_output_spec(self, numbers: Any, training: bool = False) -> Any:  # Keras 3
            del training
            return keras.KerasTensor(numbers.shape, numbers.dtype)

    numbers = keras.Input((len(NUMBERS),), name="numbers")
    model = keras.Model(numbers, keras.layers.Dense(CLASSES, "softmax", name="label")(Asks(name="asks")(numbers)))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    return model
