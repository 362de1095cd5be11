"""Handwritten digits: a small dense network with one output."""

from __future__ import annotations

from typing import Any

import keras


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model: 64 pixels in, ten classes out."""
    pixels = keras.Input((64,), name="pixels")
    hidden = keras.layers.Dense(params.get("hidden", 128), activation="relu")(pixels)
    hidden = keras.layers.Dropout(params.get("dropout", 0.1))(hidden)
    label = keras.layers.Dense(10, activation="softmax", name="label")(hidden)
    model = keras.Model(pixels, label)
    model.compile(
        optimizer=keras.optimizers.Adam(params.get("learning_rate", 0.003)),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model
