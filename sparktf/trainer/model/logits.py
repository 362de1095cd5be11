"""Whether a classifier gives logits or probabilities: its last layer and its loss say so."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sparktf.trainer.model.contract import is_loss_of_keras

_PROBABILITIES = {"sigmoid", "hard_sigmoid", "softmax"}
_LOGITS = {"log_softmax"}


def gives_logits(model: Any) -> bool | None:
    """Returns whether a Keras model's only output is logits, False for probabilities.

    The last layer comes first: with softmax in it, Keras corrects a loss that says `from_logits`, and the output is
    probabilities all the same.

    Returns:
        None where neither says, as for a regression, and with several outputs.
    """
    activation = _last_activation(model)
    if activation in _PROBABILITIES | _LOGITS:
        return activation in _LOGITS
    losses = [loss for loss in tf.nest.flatten(getattr(model, "loss", None)) if loss is not None]
    if len(losses) != 1:
        return None
    said = _from_logits(losses[0])
    # Of a loss of the user's nothing is known; where it takes numbers of any size for classes, they are logits.
    return True if said is None and activation == "linear" and not is_loss_of_keras(losses[0]) else said


def _from_logits(loss: Any) -> bool | None:
    """Returns whether a loss, by name, object or function, takes outputs for logits; None if it does not say."""
    keywords = getattr(loss, "_fn_kwargs", None) or getattr(loss, "keywords", None) or {}
    said = keywords.get("from_logits", getattr(loss, "from_logits", None))
    if isinstance(said, bool):
        return said
    function = getattr(loss, "func", loss)  # of a partial
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    is_of_classes = "crossentropy" in name or name.lower() == "bce"
    return False if is_of_classes and is_loss_of_keras(function) else None


def _last_activation(model: Any) -> str:
    """Returns the name of the function that makes a model's only output, "" if it cannot be told."""
    outputs, index = _outputs(model), 0
    if len(outputs) > 1:
        return ""
    while index < len(outputs) and (history := getattr(outputs[index], "_keras_history", None)) is not None:
        layer, _, index = history
        outputs = _outputs(layer)  # of a model as the layer of another one
        if not outputs:
            function = getattr(layer, "activation", None)
            operation = str(getattr(layer, "symbol", "")).rpartition(".")[2]  # such as tf.sigmoid, in tf_keras
            return str(getattr(function, "__name__", "")) or operation or type(layer).__name__.lower()
    return ""


def _outputs(model: Any) -> list[Any]:
    return list(getattr(model, "outputs", None) or [])
