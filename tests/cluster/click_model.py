"""Models over the click log, as a user writes them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf


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


class Pause(keras.layers.Layer):  # type: ignore[misc]
    """Passes features through, after a twentieth of a second in training."""

    def call(self, x: Any, training: bool = False) -> Any:
        """Returns `x`."""
        return x + tf.ensure_shape(tf.numpy_function(self._wait, [], tf.float32), ()) if training else x

    def _wait(self) -> np.float32:
        time.sleep(0.05)
        return np.float32(0)


def unhurried(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the same network, for runs that only go on while other things happen: it leaves them the processors."""
    x = keras.Input((8,), name="x")
    hidden = keras.layers.Dense(16, "relu")(Pause()(x))
    model = keras.Model(x, keras.layers.Dense(1, "sigmoid", name="clicked")(hidden))
    model.compile(keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
    return model


class Gate(keras.layers.Layer):  # type: ignore[misc]
    """Passes features through, once a file is written: who writes a pipe waits until somebody reads it."""

    def __init__(self, file: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._file = file  # `_path` is Keras's own

    def call(self, x: Any, training: bool = False) -> Any:
        """Returns `x`."""
        if not training or not self._file:
            return x
        with (
            tf.control_dependencies([tf.print("at the gate")]),
            tf.control_dependencies([tf.io.write_file(self._file, "")]),
        ):
            return tf.identity(x)

    def get_config(self) -> dict[str, Any]:
        """Returns what the layer is saved with: a loaded one waits for nobody."""
        return dict(super().get_config())


def gated(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the same network, which waits before each update for `params["gate"]`."""
    x = keras.Input((8,), name="x")
    hidden = keras.layers.Dense(16, "relu")(Gate(params["gate"])(x))
    model = keras.Model(x, keras.layers.Dense(1, "sigmoid", name="clicked")(hidden))
    model.compile(keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
    return model


class Checksum(keras.layers.Layer):  # type: ignore[misc]
    """Passes features through, and keeps the count and checksum of all rows that this process trained on in a file.

    The checksum is a sum of hashes, so that it says which rows they were, each how often, in whatever order they came.
    """

    def __init__(self, folder: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._folder = folder
        self._rows = 0
        self._sum = np.uint64(0)

    def call(self, x: Any, rows: Any, training: bool = False) -> Any:
        """Returns `x`."""
        if not training or not self._folder:
            return x
        return x + tf.ensure_shape(tf.numpy_function(self._note, [x, rows], tf.float32), ())

    def _note(self, x: Any, rows: Any) -> np.float32:
        # Models are built on zeros first.
        real = np.abs(x).sum(axis=1) > 0
        values = np.concatenate([rows[real, None].astype(np.uint64), x[real].view(np.uint32).astype(np.uint64)], axis=1)
        hashes = (values * np.arange(1, 2 * values.shape[1], 2, dtype=np.uint64)).sum(axis=1)
        hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        self._rows += len(hashes)
        self._sum += hashes.sum()
        part = Path(self._folder, f"{os.getpid()}.part")
        part.write_text(json.dumps({"rows": self._rows, "sum": int(self._sum)}))
        part.rename(part.with_suffix(".json"))
        return np.float32(0)

    def get_config(self) -> dict[str, Any]:
        """Returns what the layer is saved with: a loaded one keeps no checksum."""
        return dict(super().get_config())


def checked(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the same network, which keeps a checksum of its rows in the folder `params["sums"]`."""
    x, row = keras.Input((8,), name="x"), keras.Input((), dtype="int64", name="row")
    hidden = keras.layers.Dense(16, "relu")(Checksum(params["sums"])(x, row))
    clicked = keras.layers.Dense(1, "sigmoid", name="clicked")(hidden)
    model = keras.Model({"x": x, "row": row}, clicked)
    model.compile(keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
    return model
