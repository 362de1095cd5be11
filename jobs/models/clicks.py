"""Clicks, wide and deep: what each user and item is worth by itself, and what they are to each other."""

from __future__ import annotations

from typing import Any

import keras

from sparktf.layers import ShardedEmbedding


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model: ids of a user and an item and the hour in, the probability of a click out.

    `params`: `users` and `items`, the rows of their tables; `shards` of each table; `width`, `hidden`, `learning_rate`.
    """
    width, shards = params.get("width", 4), params.get("shards", 4)
    user, item, hour = (keras.Input((), name=name, dtype="int64") for name in ("user", "item", "hour"))
    wide = [
        ShardedEmbedding(params["users"], 1, shards, "zeros", name="user_alone")(user),
        ShardedEmbedding(params["items"], 1, shards, "zeros", name="item_alone")(item),
    ]
    of_user = ShardedEmbedding(params["users"], width, shards, name="user_table")(user)
    of_item = ShardedEmbedding(params["items"], width, shards, name="item_table")(item)
    of_hour = keras.layers.Embedding(24, 4, name="hour_table")(hour)
    both = keras.layers.Multiply()([of_user, of_item])
    deep = keras.layers.Concatenate()([of_user, of_item, both, of_hour])
    for units in params.get("hidden", [32]):
        deep = keras.layers.Dense(units, activation="relu")(deep)
    logit = keras.layers.Add()([*wide, keras.layers.Dense(1, name="deep")(deep)])
    model = keras.Model([user, item, hour], keras.layers.Activation("sigmoid", name="clicked")(logit))
    model.compile(
        optimizer=keras.optimizers.Adam(params.get("learning_rate", 0.005)),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc", num_thresholds=1_000)],
    )
    return model
