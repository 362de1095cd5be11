"""The models of the benchmark of asynchronous training, for sparktf and for scripts written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
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
