"""Handwritten digits with a hand-written loop over parameter servers: `train(node)` runs on the coordinator."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sparktf import Node


def make_model(hidden: int) -> keras.Model:
    """Returns the uncompiled model: 64 pixels in, ten logits out."""
    pixels = keras.Input((64,), name="pixels")
    return keras.Model(pixels, keras.layers.Dense(10, name="label")(keras.layers.Dense(hidden, "relu")(pixels)))


def train(node: Node) -> None:
    """Has workers make updates, each with rows that it reads itself, until those of all epochs are trained."""
    with node.strategy.scope():
        model = make_model(node.params.get("hidden", 128))
        optimizer = keras.optimizers.SGD(node.params.get("learning_rate", 0.2))
        optimizer.build(model.trainable_variables)
    node.restore(model=model, optimizer=optimizer)

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            loss = tf.reduce_mean(each)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return tf.reduce_sum(each)

    def updates(rows: Any) -> tuple[Any, Any]:
        """Runs on whichever worker is free; returns the sum of the loss over its rows, and their number."""
        total = tf.constant(0.0)
        for k in tf.range(rows.batches):  # none where the worker has no rows for the moment
            total += node.strategy.run(update, args=rows.batch(k))
        return total, rows.count

    for _ in node.epochs():
        while node.coordinator.schedule(updates):
            for total, rows in node.coordinator.results():
                node.report(step=node.step, rows=int(rows), loss=float(total / rows))
            node.checkpoint()
    node.export(model)
