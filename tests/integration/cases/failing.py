"""Models whose own code fails."""

from __future__ import annotations

from typing import Any

import keras


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Fails at once."""
    raise ValueError("the number of classes is not known\nThis second line says more.\nAnd so does this third one.")


class Halves(keras.layers.Layer):  # type: ignore[misc]
    """Fails when it is first trained."""

    def call(self, x: Any, training: bool = False) -> Any:
        """Returns half of the columns."""
        if training:
            return x[:, : params_of(x)["half"]]
        return x


def params_of(x: Any) -> dict[str, int]:
    """Returns nothing of use."""
    return {"whole": x.shape[1]}


def build_bad_call(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model that fails in its `call`."""
    return compiled("mse")


def build_bad_loss(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a compiled model that fails in its loss."""
    return compiled(lambda y, y_pred: y_pred - missing_name)  # type: ignore[name-defined] # noqa: F821


def compiled(loss: Any) -> keras.Model:
    """Returns a model over x and id."""
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((2,), name="x")
    model = keras.Model({"id": ids, "x": x}, keras.layers.Dense(1, name="y")(Halves()(x) if loss == "mse" else x))
    model.compile("sgd", loss)
    return model
