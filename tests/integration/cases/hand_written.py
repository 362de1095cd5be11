"""A low-level `train(node)` with a loop written by hand."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sparktf import Node

from .books import Books


def train(node: Node) -> None:
    """Fits y to x in a loop that sums gradients over the workers."""
    books = Books(node.params)
    with node.strategy.scope():
        ids, x = keras.Input((), dtype="int64", name="id"), keras.Input((2,), name="x")
        model = keras.Model({"id": ids, "x": x}, keras.layers.Dense(1, name="y")(x))
        optimizer = keras.optimizers.SGD(0.05)
        optimizer.build(model.trainable_variables)
    variables = [v.value for v in model.trainable_variables]

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def gradients(inputs: Any, y: Any) -> list[Any]:
        """Returns sums over the rows of all workers: the gradients, the loss, the number of rows."""

        def replica(inputs: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((model(inputs)[:, 0] - y) ** 2)
            sums = [*tape.gradient(loss, variables), loss, tf.cast(tf.shape(y)[0], tf.float32)]
            return tf.distribute.get_replica_context().all_reduce("SUM", sums)

        per_replica = node.strategy.run(replica, (inputs, y))
        return [node.strategy.experimental_local_results(value)[0] for value in per_replica]

    dry = ({"id": tf.zeros((0,), tf.int64), "x": tf.zeros((0, 2))}, tf.zeros((0,)))
    node.restore(model=model, optimizer=optimizer)
    for _ in node.epochs():
        batches = iter(node.dataset())
        while True:
            inputs, y = next(batches, dry)
            books.update(inputs["id"].numpy())
            *sums, loss, rows = gradients(inputs, y)
            if not rows:
                break
            for variable, total in zip(variables, sums, strict=True):
                variable.assign_sub(0.05 * total / rows)
            node.report(step=node.step + 1, rows=len(y), loss=float(loss / rows))
            node.checkpoint()
    node.export(model)
