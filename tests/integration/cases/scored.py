"""A model with an input of each kind, and two outputs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class Mean(keras.layers.Layer):  # type: ignore[misc]
    """The mean of each list, 0 of an empty one."""

    def call(self, lists: Any) -> Any:
        """Returns [rows, 1]."""
        counts = tf.maximum(tf.cast(lists.row_lengths(), tf.float32), 1.0)
        return tf.expand_dims(tf.reduce_sum(lists, 1) / counts, 1)

    def compute_output_shape(self, shape: Any) -> Any:
        """Returns the shape for Keras."""
        return (shape[0], 1)


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model."""
    del params, assets
    inputs = {
        "id": keras.Input((), dtype="int64", name="id"),
        "x": keras.Input((2,), name="x"),
        "b_there": keras.Input((1,), name="b_there"),
        "b": keras.Input((1,), name="b"),
        "colour": keras.Input((), dtype="string", name="colour"),
        "tags": keras.Input((None,), ragged=True, name="tags"),
    }
    colours = keras.layers.StringLookup(vocabulary=["red", "green", "none"])(inputs["colour"])
    parts = [
        inputs["x"],
        inputs["b"],
        inputs["b_there"],
        keras.layers.Embedding(4, 2)(colours),
        Mean()(inputs["tags"]),
    ]
    hidden = keras.layers.Concatenate()(parts)
    outputs = {
        "y": keras.layers.Dense(1, name="y")(hidden),
        "kind": keras.layers.Dense(3, activation="softmax", name="kind")(hidden),
    }
    names = keras.layers.StringLookup(vocabulary=["a", "grün", "c"], num_oov_indices=0, invert=True, name="called")
    outputs["called"] = names(keras.ops.argmax(outputs["kind"], axis=1))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", {"y": "mse", "kind": "sparse_categorical_crossentropy"})
    return model
