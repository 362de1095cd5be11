"""A model that needs to know the data: means and deviations, found once on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def prepare(df: DataFrame, params: dict[str, Any]) -> dict[str, Any]:
    """Returns count, mean and deviation of the columns that `params` names."""
    from pyspark.sql import functions as f  # not in trainers, which know nothing of Spark

    row = df.agg(f.count("*"), *(g(c) for c in params["columns"] for g in (f.mean, f.stddev_pop))).first()
    assert row is not None
    count, *moments = row
    moments = [round(moment, 9) for moment in moments]  # whatever the order in which tasks add up
    return {"rows": count, "mean": moments[::2], "deviation": moments[1::2]}


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model that normalises x."""
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((2,), name="x")
    variance = [deviation**2 for deviation in assets["deviation"]]
    rows = keras.layers.Normalization(mean=assets["mean"], variance=variance)(x)
    model = keras.Model({"id": ids, "x": x}, keras.layers.Dense(1, name="y")(rows))
    model.compile("sgd", "mse")
    return model
