"""Checks before training whether Keras can write a model into a `.keras` file."""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from sparktf.errors import ModelContractError
from sparktf.trainer.model.said import first_line
from sparktf.trainer.model.trackables import flavour_of
from sparktf.trainer.model.variable_names import layers_of

KERAS = "keras"
"""The name of a `.keras` file in `export.formats`."""


def check_written(model: Any, formats: Sequence[str]) -> str:
    """Returns a warning if no run can begin from the exported model; "" if it can.

    Raises:
        ModelContractError: `formats` has a `.keras` file, and Keras cannot write it; names the part at fault.
    """
    said = unwritable(model)
    if not said:
        return ""
    if KERAS in formats:
        raise ModelContractError(
            f"model: Keras cannot write it into a .keras file: {said}: mend that, or set export.formats: "
            "[saved_model], which leaves that file out, but then no run can begin from the model"
        )
    return f"the model is exported as a SavedModel alone, as export.formats says; a .keras file cannot have it: {said}"


def unwritable(model: Any) -> str:
    """Returns the part of a Keras model that cannot be written into a `.keras` file, and why; "" for none."""
    serialize = importlib.import_module(flavour_of([model])).saving.serialize_keras_object
    error = _error_of(serialize, model)
    if error is None:
        return ""
    for name, part in _parts(model):
        if (own := _error_of(serialize, part)) is not None:
            return f"{name}: {_in_a_line(own)}"
    return f"{type(model).__name__}: {_in_a_line(error)}"


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a model that are written, with their names, nested layers first."""
    for layer in reversed(layers_of(model)):
        if layer is not model:
            yield f"layer '{layer.name}' ({type(layer).__name__})", layer
    compiled = getattr(getattr(model, "_compile_config", None), "config", None) or {}
    for key, value in compiled.items():
        for leaf in _leaves(value):
            name = getattr(leaf, "__name__", type(leaf).__name__)
            yield f"{key} {name}" + (", which needs a name of its own" if name == "<lambda>" else ""), leaf


def _error_of(serialize: Any, part: Any) -> Exception | None:
    """Returns the error of serializing a part to JSON, as Keras does when it writes a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            json.dumps(serialize(part))
        except Exception as error:  # noqa: BLE001 - Keras, or the user's `get_config`, may raise anything
            return error
    return None


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value
