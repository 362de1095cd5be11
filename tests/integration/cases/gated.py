"""A linear model that says in the log of the process that trains it which rows an update has, and waits at gates."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from sparktf import Node


def gated_layer(keras: Any) -> Any:
    """Returns the class of layers of one Keras that pass rows through.

    All of it is in the graph: under parameter servers, Python runs where the graph is made. Gates are pipes that nobody
    reads: who opens one to write waits (`integration.gates`).
    """

    @keras.saving.register_keras_serializable(package="cases")
    class Gated(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, gates: tuple[str, ...] = (), every: int = 1, **options: Any) -> None:
            """Has one gate stand before the rows whose id is an odd multiple of `every`, one before even ones."""
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

    return Gated


Gated = gated_layer(keras)  # for who loads an exported model


def _pass(gate: str) -> Any:
    with tf.control_dependencies([tf.io.write_file(gate, "")]):
        return tf.constant(True)


def build(params: Mapping[str, Any], assets: Mapping[str, Any]) -> Any:
    """Returns the compiled model: y from x, in the Keras that `params["flavour"]` names."""
    flavour = importlib.import_module(params.get("flavour", "keras"))
    model = _model(flavour, Gated if flavour is keras else gated_layer(flavour), params)
    model.compile(flavour.optimizers.SGD(0.05), "mse")
    return model


def train(node: Node) -> None:
    """Trains the same in a loop of its own, on a coordinator."""
    with node.strategy.scope():
        model, optimizer = _model(keras, Gated, node.params), keras.optimizers.SGD(0.05)
        optimizer.build(model.trainable_variables)
    node.restore(model=model, optimizer=optimizer)

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            each = (model(x, training=True)[:, 0] - y) ** 2
            loss = tf.reduce_mean(each)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return tf.reduce_sum(each)

    def updates(rows: Any) -> tuple[Any, Any]:
        total = tf.constant(0.0)
        for k in tf.range(rows.batches):
            total += node.strategy.run(update, args=rows.batch(k))
        return total, rows.count

    for _ in node.epochs():
        while node.coordinator.schedule(updates):
            for total, rows in node.coordinator.results():
                node.report(step=node.step, rows=int(rows), loss=float(total / rows))
            node.checkpoint()
    node.export(model)


def _model(keras: Any, gated: Any, params: Mapping[str, Any]) -> Any:
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((2,), name="x")
    rows = gated(tuple(params["gates"]), params["every"])(x, ids)
    return keras.Model({"id": ids, "x": x}, keras.layers.Dense(1, kernel_initializer="ones", name="y")(rows))
