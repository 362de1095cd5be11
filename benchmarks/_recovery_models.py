"""The model of `make bench-recovery`: it counts its rows, and says when it makes an update."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def build(params: Mapping[str, Any], assets: Mapping[str, Any]) -> Any:
    """Returns a model with one weight a row, which grows by one in each update that has the row.

    Args:
        params: `rows`; `stamps`, a folder where each process writes when it makes an update; `bulk`, the number of
            further weights; `pace`, the seconds of an update until the file `quick` is in that folder.
    """
    del assets
    tf, keras = importlib.import_module("tensorflow"), importlib.import_module("keras")
    stamps = Stamps(Path(params["stamps"]), float(params["pace"]))
    row = keras.Input((), name="row", dtype="int64")

    @keras.saving.register_keras_serializable(package="recovery")
    class Counts(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            del shape
            self.counts = self.add_weight(shape=(params["rows"], 1), initializer="zeros", name="counts")
            self.bulk = self.add_weight(shape=(params["bulk"],), initializer="ones", name="bulk", trainable=False)

        def call(self, row: Any) -> Any:
            told = tf.numpy_function(stamps.add, [row], tf.int64)
            taken = tf.gather(tf.convert_to_tensor(self.counts), tf.ensure_shape(told, row.shape))
            return taken * tf.cast(tf.shape(row)[0], taken.dtype)

        def compute_output_spec(self, row: Any) -> Any:
            return keras.KerasTensor((*row.shape, 1), "float32")

    @keras.saving.register_keras_serializable(package="recovery")  # type: ignore[untyped-decorator]
    def less(y_true: Any, y_pred: Any) -> Any:
        del y_true
        return -tf.squeeze(y_pred, -1)

    model = keras.Model({"row": row}, Counts(name="price")(row))
    model.compile(keras.optimizers.RMSprop(1.0, rho=0.0, epsilon=1e-12), less)
    return model


class Stamps:
    """The moments of one process's updates, each when its forward pass begins, in a file with the name of its log."""

    def __init__(self, folder: Path, pace_s: float) -> None:
        self._folder = folder
        self._pace_s = pace_s
        self._file: int | None = None

    def add(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Notes one, and returns its rows."""
        if self._file is None:
            log = Path(os.readlink("/proc/self/fd/1")).stem
            self._file = os.open(self._folder / f"{log}@{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, f"{time.monotonic():.6f}\n".encode())
        if self._pace_s and not (self._folder / "quick").exists():
            time.sleep(self._pace_s)
        return rows
