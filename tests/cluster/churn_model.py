"""A model of who leaves, as a team has it beside its configuration: what it knows of a country outlives the night."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras


def prepare(df: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Returns the countries there are in the rows of training."""
    return {"countries": [row.country for row in df.select("country").distinct().orderBy("country").collect()]}


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model: each column has a say of its own, and they are added up."""
    import keras  # here: the driver, which only prepares, is three seconds faster without

    usage = keras.Input((2,), name="usage")
    country = keras.Input((), name="country", dtype="string")
    codes = keras.layers.StringLookup(vocabulary=assets["countries"], name="countries")(country)
    of_country = keras.layers.Embedding(len(assets["countries"]) + 1, 1, name="of_country")(codes)
    hidden = keras.layers.Dense(16, "tanh", name="hidden")(usage)
    said = [keras.layers.Dense(1, name="of_usage")(hidden), of_country]
    inputs = [usage, country]
    if params.get("tenure"):
        inputs.append(keras.Input((1,), name="tenure"))
        said.append(keras.layers.Dense(1, use_bias=False, name="of_tenure")(inputs[-1]))
    churned = keras.layers.Activation("sigmoid", name="churned")(keras.layers.Add(name="logit")(said))
    model = keras.Model(inputs, churned)
    model.compile(
        keras.optimizers.Adam(params["learning_rate"]), "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")]
    )
    return model
