"""Steps with a large table and with a small one: `make bench-tables`.

One process, both flavours of Keras: lookups, gradients and updates of a ShardedEmbedding, the same number of ids in
each step. Keras's own Embedding with the same optimizer stands beside, for comparison.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _report import Figure, figure, report

LARGE, SMALL, WIDTH, SHARDS = 4_000_000, 40_000, 16, 4
IDS = (256, 4)
STEPS, RUNS = 200, 5
OWN_STEPS = 20
"""Of Keras's own layer, which takes up to a second for each."""
OPTIMIZERS = ("SGD", "Adagrad", "Adam")


def trained(flavour: str, kind: str, rows: int, *, sharded: bool) -> Callable[[int], float]:
    """Returns a function that makes so many steps, and returns how many a second."""
    tf, keras = importlib.import_module("tensorflow"), importlib.import_module(flavour)
    layers = importlib.import_module(f"sparktf.layers.{flavour}")
    ids = keras.Input(IDS[1:], dtype="int64")
    layer = layers.ShardedEmbedding(rows, WIDTH, SHARDS) if sharded else keras.layers.Embedding(rows, WIDTH)
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.Flatten()(layer(ids))))
    optimizer = getattr(keras.optimizers, kind)(0.01)
    optimizer.build(model.trainable_variables)
    importlib.import_module("sparktf.layers").update_rows(model, optimizer)
    variables = [getattr(v, "_value", v) for v in model.trainable_variables]

    @tf.function  # type: ignore[untyped-decorator]
    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(batch, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), model.trainable_variables, strict=True))
        return loss

    draw = np.random.default_rng(0)
    batches = [tf.constant(draw.integers(0, rows, IDS)) for _ in range(STEPS)]
    step(batches[0])

    def steps_per_second(count: int) -> float:
        start = time.perf_counter()
        for batch in batches[:count]:
            loss = step(batch)
        loss.numpy()
        return count / (time.perf_counter() - start)

    return steps_per_second


def figures_of(flavour: str, kind: str) -> list[Figure]:
    """Returns the figures of a flavour and an optimizer; large and small take turns: both see the same machine."""
    large, small = (trained(flavour, kind, rows, sharded=True) for rows in (LARGE, SMALL))
    pairs = [(large(STEPS), small(STEPS)) for _ in range(RUNS)]
    del large, small
    own = trained(flavour, kind, LARGE, sharded=False)
    name = f"{flavour} {kind}"
    return [
        figure(f"{name}: 4 M x 16", [one for one, _ in pairs], unit="steps/s"),
        figure(f"{name}: 4 M x 16, Keras's own", [own(OWN_STEPS) for _ in range(RUNS)], unit="steps/s"),
        figure(f"{name}: 4 M / 40,000", [one / other for one, other in pairs], unit=""),
    ]


def main() -> None:
    """Measures and reports."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    found = [f for flavour in ("keras", "tf_keras") for kind in OPTIMIZERS for f in figures_of(flavour, kind)]
    report("tables", found)


if __name__ == "__main__":
    main()
