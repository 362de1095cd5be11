"""The models of the benchmark of asynchronous training, for sparktf and for scripts written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from _clock import clock

COLUMNS, IDS = 8, 4


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled MLP: 8 columns in, 64 and 64 units, one number out.

    Args:
        params: "times" names a folder for what `clock` has a trainer write down.
    """
    if "times" in params:
        clock(Path(params["times"]))
    x = keras.Input((COLUMNS,), name="x")
    hidden = keras.layers.Dense(64, activation="relu")(x)
    hidden = keras.layers.Dense(64, activation="relu")(hidden)
    model = keras.Model(x, keras.layers.Dense(1, name="y")(hidden))
    model.compile(optimizer=keras.optimizers.Adam(), loss="mse")
    return model


def build_table(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model that is hardly more than a table: 4 ids in, one number out.

    Args:
        params: "rows" and "width" of the table; "times" as of `build`.
    """
    from sparktf.layers import ShardedEmbedding  # noqa: PLC0415 - scripts written by hand do without sparktf

    clock(Path(params["times"]))
    ids = keras.Input((IDS,), name="x", dtype="int64")
    rows = keras.layers.Flatten()(ShardedEmbedding(params["rows"], params["width"], name="table")(ids))
    model = keras.Model(ids, keras.layers.Dense(1, name="y")(rows))
    model.compile(optimizer=keras.optimizers.Adagrad(), loss="mse")
    return model


class Lookup(keras.layers.Layer):  # type: ignore[misc]
    """A table of which rows are gathered where it is; whatever updates them passes over all of it."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(rows, width), initializer="zeros", name="table")

    def call(self, ids: Any) -> Any:
        """Returns rows: [batch, ids, width]."""
        return tf.gather(self.table.value, ids)


def build_server_bound(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model whose updates are work for parameter servers: Keras's Adam passes over its table.

    Args:
        params: "rows" and "width" of the table; "times" as of `build`.
    """
    clock(Path(params["times"]))
    ids = keras.Input((IDS,), name="x", dtype="int64")
    rows = keras.layers.Flatten()(Lookup(params["rows"], params["width"])(ids))
    model = keras.Model(ids, keras.layers.Dense(1, name="y")(rows))
    model.compile(optimizer=keras.optimizers.Adam(), loss="mse")
    return model


def build_worker_bound(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model whose updates are work for workers: one small layer, many times over.

    Args:
        params: "times" as of `build`.
    """
    clock(Path(params["times"]))
    x = keras.Input((COLUMNS,), name="x")
    layer, hidden = keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(64)(x)
    for _ in range(100):
        hidden = layer(hidden)
    model = keras.Model(x, keras.layers.Dense(1, name="y")(hidden))
    model.compile(optimizer=keras.optimizers.SGD(), loss="mse")
    return model
