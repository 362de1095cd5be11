"""A compiled model and callbacks of Keras in the places of functions: how they are taken, or refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparktf.errors import ConfigError
from sparktf.told import typed_line_of_error
from sparktf.wire.keras_objects import GivenCallbacks, GivenModel

_FLAVOURS = ("keras", "tf_keras")


def given_model(value: Any) -> Any:
    """Returns a function that makes a compiled model again; any other value as it is.

    Raises:
        ConfigError: it is a model that is not compiled, has no weights yet, or cannot be written by Keras.
    """
    flavour = keras_of(value, "Model")
    if not flavour or isinstance(value, type):
        return value
    if not (getattr(value, "compiled", False) or getattr(value, "_is_compiled", False)):
        raise ConfigError("model is not compiled: call model.compile(optimizer, loss, metrics=[...]) before")
    if not value.built:
        raise ConfigError("model has no weights yet: begin it with keras.Input(...), or call it on a row")
    with tempfile.TemporaryDirectory(prefix="sparktf-model-") as folder:
        file = Path(folder, "model.keras")
        try:
            value.save(str(file))
        except Exception as error:
            raise ConfigError(
                f"model cannot be written by Keras ({typed_line_of_error(error)}): give model= a function that "
                "builds and compiles it"
            ) from error
        return GivenModel(flavour, file.read_bytes(), {_name_of(one): one for one in own_objects(value)})


def given_callbacks(value: Any) -> GivenCallbacks:
    """Returns a function that returns callbacks, of a list of them or of a single one.

    Raises:
        ConfigError: one is no callback of Keras's.
    """
    callbacks = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for callback in callbacks:
        if isinstance(callback, type) or not keras_of(callback, "Callback"):
            raise ConfigError(
                f"callbacks: {callback!r} is not a Keras callback: give a list of them, or a function of params that "
                "returns one"
            )
    return GivenCallbacks(callbacks)


def kept_by(callbacks: GivenCallbacks) -> dict[str, str]:
    """Returns the settings of `train` by which a run keeps the weights that a callback restores; empty for none.

    A callback that watches metrics of training is left to the refusal of it.
    """
    for callback in callbacks.callbacks:
        monitor = str(getattr(callback, "monitor", ""))
        if getattr(callback, "restore_best_weights", False) and monitor.startswith("val_"):
            mode = str(getattr(callback, "mode", "auto"))
            known = {"keep_mode": mode} if mode in ("min", "max") else {}
            return {"keep": "best", "keep_metric": monitor, **known}
    return {}


def keras_of(value: Any, base: str) -> str:
    """Returns the Keras that has a base class of a value, "keras" or "tf_keras"; "" for none."""
    for cls in (value if isinstance(value, type) else type(value)).__mro__:
        package = cls.__module__.partition(".")[0]
        if cls.__name__ == base and package in _FLAVOURS:
            return package
    return ""


def own_objects(model: Any) -> Iterator[Any]:
    """Yields the classes and functions of a compiled model that Keras does not have itself: the program's own."""
    layers = [type(layer) for layer in model._flatten_layers()]
    kept = getattr(model, "_compile_metrics", None) or getattr(model, "compiled_metrics", None)
    metrics = [getattr(kept, name, None) for name in ("_user_metrics", "_user_weighted_metrics")]
    for value in (*layers, *_leaves([model.loss, model.optimizer, *metrics])):
        one = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
        if one.__module__.partition(".")[0] not in (*_FLAVOURS, "builtins"):
            yield one


def _name_of(value: Any) -> str:
    """Returns the name of a class or function, as a file of Keras's has it."""
    return str(value.__name__)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _leaves(one)
    elif value is not None and not isinstance(value, str):
        yield value
