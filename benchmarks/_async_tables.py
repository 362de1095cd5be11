"""The coordinator's script of a benchmark: models with a small and a large ShardedEmbedding, in turn.

    _async_tables.py FLAVOUR OPTIMIZER RUNS OUT        FLAVOUR is keras or tf_keras; servers as of _async_by_hand.py

Both models are trained by the same workers on batches that use rows of their tables in the same pattern, all over the
table. They are made up on the workers, so that nothing but lookups and updates is measured.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SMALL, LARGE = 40_000, 4_000_000
WIDTH, BATCH, IDS = 16, 256, 4
STEPS, CLOSURES = 32, 16
"""Updates in a closure, and closures of which the rate is measured."""


def build(keras: Any, layers: Any, optimizer: str, rows: int) -> Any:
    """Returns the compiled model: IDS ids in, one number out."""
    ids = keras.Input((IDS,), name="ids", dtype="int64")
    embedded = keras.layers.Flatten()(layers.ShardedEmbedding(rows, WIDTH, name="table")(ids))
    model = keras.Model(ids, keras.layers.Dense(1, name="y")(embedded))
    model.compile(optimizer=getattr(keras.optimizers, optimizer)(), loss="mse")
    return model


def batches(tf: Any, rows: int) -> Any:
    """Returns a dataset of made-up batches."""

    def make(number: Any) -> Any:
        ids = tf.random.stateless_uniform((BATCH, IDS), (0, number), 0, SMALL, tf.int64)
        return ids * (rows // SMALL), tf.cast(ids[:, :1] % 2, tf.float32)

    return tf.data.Dataset.counter().map(make).prefetch(tf.data.AUTOTUNE)


def trainer(tf: Any, flavour: str, optimizer: str, rows: int, strategy: Any, coordinator: Any) -> Callable[[], float]:
    """Returns what trains for a while, and returns its steps per second."""
    keras = importlib.import_module(flavour)
    with strategy.scope():
        model = build(keras, importlib.import_module(f"sparktf.layers.{flavour}"), optimizer, rows)
        model.optimizer.build(model.trainable_variables)
        importlib.import_module("sparktf.layers").update_rows(model)

    def update(batch: Any) -> Any:
        ids, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(ids, training=True) - y) ** 2)
        variables = [getattr(variable, "value", variable) for variable in model.trainable_variables]
        gradients = tape.gradient(loss, variables if flavour == "keras" else model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def closure(source: Any) -> Any:
        loss, steps = tf.constant(0.0), tf.constant(0)
        for _ in tf.range(STEPS):
            losses = strategy.run(update, args=(next(source),))
            loss += strategy.reduce("SUM", losses, axis=None)
            steps += 1
        return loss, steps

    @tf.function  # type: ignore[untyped-decorator]
    def dataset() -> Any:
        return strategy.distribute_datasets_from_function(lambda _: batches(tf, rows))

    source = iter(coordinator.create_per_worker_dataset(dataset))

    def train(closures: int = CLOSURES) -> float:
        began = time.time()
        results = [coordinator.schedule(closure, args=(source,)) for _ in range(closures)]
        coordinator.join()
        seconds = time.time() - began
        return sum(int(result.fetch()[1]) for result in results) / seconds

    train(4)  # every worker has been given one
    return train


def main(flavour: str, optimizer: str, runs: int, out: Path) -> None:
    """Writes the steps per second of each run, with the small and the large table."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf  # noqa: PLC0415 - reads its environment when imported

    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    make = partial(trainer, tf, flavour, optimizer, strategy=strategy, coordinator=coordinator)
    small, large = make(SMALL), make(LARGE)
    rates = [(small(), large()) for _ in range(runs)]
    out.write_text(json.dumps({"small": [rate for rate, _ in rates], "large": [rate for _, rate in rates]}))
    os._exit(0)  # as that of _async_by_hand.py


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
