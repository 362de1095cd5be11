"""A linear model that says in the log of the process that trains it which rows an update has, and waits at gates."""

from __future__ import annotations

import sys
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="cases")
class Gated(keras.layers.Layer):  # type: ignore[misc]
    """Passes rows through. All of it is in the graph: under parameter servers, Python runs where the graph is made.

    Gates are pipes that nobody reads: who opens one to write waits (`integration.gates`).
    """

    def __init__(self, gates: tuple[str, ...] = (), every: int = 1, **options: Any) -> None:
        """Has each gate stand before the rows whose id is an odd multiple of `every`, or the next before even ones."""
        super().__init__(**options)
        self._gates = gates
        self._every = every

    def call(self, rows: Any, ids: Any, training: bool = False) -> Any:
        """Returns `rows`."""
        if not training or not self._gates:
            return rows
        done = [tf.print("update of", ids, summarize=-1, output_stream=sys.stderr)]
        for rest, gate in enumerate(self._gates, start=1):
            here = tf.equal(tf.math.floormod(ids, 2 * self._every), rest * self._every % (2 * self._every))
            with tf.control_dependencies(done):
                done = [tf.cond(tf.reduce_any(here & (ids > 0)), lambda gate=gate: _pass(gate), lambda: True)]
        with tf.control_dependencies(done):
            return tf.identity(rows)

    def get_config(self) -> dict[str, Any]:
        """Returns what the layer is saved with: a loaded one has no gates."""
        return dict(super().get_config())


def _pass(gate: str) -> Any:
    with tf.control_dependencies([tf.io.write_file(gate, "")]):
        return tf.constant(True)


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model: y from x."""
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((2,), name="x")
    rows = Gated(tuple(params["gates"]), params["every"])(x, ids)
    model = keras.Model({"id": ids, "x": x}, keras.layers.Dense(1, kernel_initializer="ones", name="y")(rows))
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model
