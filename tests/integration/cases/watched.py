"""A linear model that keeps books of the rows it is trained on."""

from __future__ import annotations

import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .books import Books


class Noted(keras.layers.Layer):  # type: ignore[misc]
    """Passes rows through, and their ids to the books."""

    def __init__(self, books: Books | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._books = books

    def call(self, rows: Any, ids: Any, training: bool = False) -> Any:
        """Returns `rows`."""
        if not training:
            return rows
        return rows + tf.ensure_shape(tf.numpy_function(self._note, [ids], tf.float32), ())

    def _note(self, ids: Any) -> np.float32:
        if self._books is not None:
            self._books.update(ids)
        return np.float32(0)

    def get_config(self) -> dict[str, Any]:
        """Returns what the layer is saved with: a loaded one keeps no books."""
        return dict(super().get_config())


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model: y from x."""
    if "pyspark" in sys.modules:
        raise RuntimeError("a trainer has imported pyspark")
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((2,), name="x")
    rows = Noted(Books(params))(x, ids) if "books" in params else x
    model = keras.Model({"id": ids, "x": x}, keras.layers.Dense(1, kernel_initializer="ones", name="y")(rows))
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model
