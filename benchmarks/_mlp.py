"""The model of the training benchmark, for sparktf and for the hand-written script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
from _clock import clock


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model: 16 columns in, one number out.

    Args:
        params: "times" names a folder for the times of the trainers' calls into TensorFlow.
    """
    if "times" in params:
        clock(Path(params["times"]))
    x = keras.Input((16,), name="x")
    hidden = keras.layers.Dense(64, activation="relu")(x)
    model = keras.Model(x, keras.layers.Dense(1, name="y")(hidden))
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
    return model
