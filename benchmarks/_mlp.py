"""The model of the training benchmarks, for sparktf and for the hand-written script."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras
from _clock import clock
from _core import bind


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model: 16 columns in, one number out.

    Args:
        params: "times" names a folder for the times of the trainers' calls into TensorFlow; "hidden" has the sizes of
            the hidden layers, one of 64 by default; "one_core" gives each trainer a core of its own.
    """
    if params.get("one_core"):
        bind(json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0))
    if "times" in params:
        clock(Path(params["times"]))
    x = hidden = keras.Input((16,), name="x")
    for units in params.get("hidden", [64]):
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model(x, keras.layers.Dense(1, name="y")(hidden))
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
    return model
