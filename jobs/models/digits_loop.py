"""Handwritten digits with a hand-written training loop: the low-level contract `train(node)`."""

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
    """Trains with one `strategy.run` a batch, over shares of different lengths."""
    with node.strategy.scope():
        model = make_model(node.params.get("hidden", 128))
        optimizer = keras.optimizers.SGD(node.params.get("learning_rate", 0.2))
        optimizer.build(model.trainable_variables)
    node.restore(model=model, optimizer=optimizer)

    def replica(x: Any, y: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            # A sum over the full update's rows: smaller batches at the end of a share weigh less.
            loss = tf.reduce_sum(each) / (node.batch_size * node.workers)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss, tf.shape(x)[0]

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def update(x: Any, y: Any) -> tuple[Any, Any]:
        loss, rows = node.strategy.run(replica, args=(x, y))
        # This node's own rows: what the others trained, they report.
        mine = tf.add_n(node.strategy.experimental_local_results(rows))
        return node.strategy.reduce("SUM", loss, axis=None), mine

    step = node.step
    for _ in node.epochs():
        for x, y in node.strategy.distribute_datasets_from_function(lambda _: node.dataset("train")):
            loss, rows = update(x, y)
            step += 1
            node.report(step=step, rows=int(rows), loss=float(loss))
            node.checkpoint()
    node.export(model)
