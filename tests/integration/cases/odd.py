"""What a model function must not return."""

from __future__ import annotations

from typing import Any

import keras


def nothing(params: dict[str, Any], assets: dict[str, Any]) -> None:
    """Returns no model."""


def not_compiled(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a model without a loss."""
    x = keras.Input((2,), name="x")
    return keras.Model(x, keras.layers.Dense(1, name="y")(x))


def not_fed(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a model with an input that no column feeds."""
    x, age = keras.Input((2,), name="x"), keras.Input((1,), name="age")
    model = keras.Model({"x": x, "age": age}, keras.layers.Dense(1, name="y")(keras.layers.Concatenate()([x, age])))
    model.compile("sgd", "mse")
    return model
