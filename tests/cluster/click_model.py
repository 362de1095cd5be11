"""Models over the click log, as a user writes them."""

from __future__ import annotations

from typing import Any

import keras


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a small network; plain SGD, so that a difference in any update shows in the weights."""
    model = keras.Sequential(
        [keras.Input((8,), name="x"), keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid", name="clicked")]
    )
    model.compile(keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
    return model


def greedy(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the same network, with more memory in use than the container has."""
    greedy.held = bytearray(params["mib"] << 20)  # type: ignore[attr-defined]
    greedy.held[::4096] = b"x" * len(greedy.held[::4096])  # type: ignore[attr-defined]
    return build(params, assets)
