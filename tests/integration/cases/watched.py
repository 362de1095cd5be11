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
        if not training and (self._books is None or not self._books.has_evaluations):
            return rows
        note = self._note if training else self._note_evaluated
        return rows + tf.ensure_shape(tf.numpy_function(note, [ids], tf.float32), ())

    def _note(self, ids: Any) -> np.float32:
        if self._books is not None:
            self._books.update(ids)
        return np.float32(0)

    def _note_evaluated(self, ids: Any) -> np.float32:
        if self._books is not None:
            self._books.evaluate(ids)
        return np.float32(0)

    def get_config(self) -> dict[str, Any]:
        """Returns what the layer is saved with: a loaded one keeps no books."""
        return dict(super().get_config())


@keras.saving.register_keras_serializable(package="watched")
class Counts(keras.layers.Layer):  # type: ignore[misc]
    """One weight a row, which grows by one in each update that has the row."""

    def __init__(self, rows: int, **options: Any) -> None:
        super().__init__(**options)
        self._rows = rows

    def build(self, shape: Any) -> None:
        """Makes the weights."""
        del shape
        self.counts = self.add_weight(shape=(self._rows, 1), initializer="zeros", name="counts")

    def call(self, ids: Any) -> Any:
        """Returns those of some rows."""
        taken = tf.gather(tf.convert_to_tensor(self.counts), ids)
        return taken * tf.cast(tf.shape(ids)[0], taken.dtype)  # a loss is the mean over the rows

    def get_config(self) -> dict[str, Any]:
        """Returns what the layer is saved with."""
        return {**super().get_config(), "rows": self._rows}


def less(y_true: Any, y_pred: Any) -> Any:
    """Returns a loss that falls as the output grows."""
    del y_true
    return -tf.squeeze(y_pred, -1)


def build_counting(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model that counts how often it has been trained on each id below `params["rows"]`."""
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((2,), name="x")
    noted = keras.ops.sum(Noted(Books(params))(x, ids), axis=-1, keepdims=True)
    model = keras.Model({"id": ids, "x": x}, Counts(params["rows"], name="y")(ids) + 0.0 * noted)
    # By the gradient's sign: members in lockstep take the mean over the rows of all, whose number no model knows.
    model.compile(keras.optimizers.RMSprop(1.0, rho=0.0, epsilon=1e-12), less)
    return model


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
