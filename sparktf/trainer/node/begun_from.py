"""The model that a run begins from, made of a file that others may have written: weights, if possible, and no code."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sparktf.errors import ModelContractError
from sparktf.keras_file import KerasFile, read_keras_file, same_layers, strangers
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.said import first_line
from sparktf.trainer.model.tensors import example
from sparktf.trainer.model.tracing import build_layers, traced
from sparktf.trainer.model.variable_names import layers_of

_KEY = "train.init_from"
_SHOWN = 240


class FoundFile(NamedTuple):
    """Of what a model is made.

    Attributes:
        label: What it is called.
        build: The user's function that has made the run's own model.
        name: That of the function, as `module:function`.
        params: What the function is given, with `assets`: those that lie beside the file.
        modules: The user's.
        with_optimizer: Whether its optimizer's state is wanted.
    """

    file: Path
    label: str
    build: Callable[..., Any]
    name: str
    params: Mapping[str, Any]
    assets: Mapping[str, Any]
    modules: frozenset[str]
    with_optimizer: bool


def begun_from(model: UserModel, given: FoundFile) -> Any:
    """Returns the Keras model of a file.

    It is built by the user's function, and takes the file's weights alone, where the function still makes a model of
    the same layers. Else Keras makes it of the file's configuration, unless that names code of strangers: whoever may
    write the file could run any program by that.

    Raises:
        ModelContractError: it is none of this Keras's models, or can be had in neither way.
    """
    file = read_keras_file(given.file, f"{_KEY}: {given.label}")
    if file.flavour != model.flavour:
        raise ModelContractError(
            f"{_KEY}: {given.label} is a model of {file.flavour}, and this one is of {model.flavour}: neither reads "
            "the other's"
        )
    keras = importlib.import_module(model.flavour)
    importlib.import_module(f"sparktf.layers.{model.flavour}")  # registers what the file may name
    objects = _objects_of(model)
    modules = given.modules | {type(found).__module__ for found in layers_of(model.model)}
    foreign = strangers(file.config, modules, {*keras.saving.get_custom_objects(), *objects})
    found, why = _weights_alone(model, keras, file, given, is_only_way=bool(foreign))
    if found is not None:
        return found
    if foreign:
        raise ModelContractError(
            f"{_KEY}: {given.label} names code that is neither Keras's nor this model's ({', '.join(foreign[:3])}), "
            f"which is not run; its weights alone cannot be taken: {why}"
        )
    try:
        return keras.models.load_model(str(given.file), custom_objects=objects, compile=given.with_optimizer)
    except Exception as error:  # noqa: BLE001 - Keras raises all kinds
        first = error
    # Keras cannot make it by itself, and could not say of which layers it is.
    found, why = _weights_alone(model, keras, file, given, is_only_way=True)
    if found is None:
        raise ModelContractError(
            f"{_KEY}: {given.label} cannot be loaded ({first_line(first)[:_SHOWN]}), nor built anew: {why}"
        ) from first
    return found


def _objects_of(model: UserModel) -> dict[str, Any]:
    """Returns what the run's own model is made of, by names that the file may have for it."""
    classes = {type(layer).__name__: type(layer) for layer in layers_of(model.model)}
    losses = {getattr(loss, "__name__", type(loss).__name__): loss for loss in model.losses() if callable(loss)}
    return {**losses, **classes}


def _weights_alone(
    model: UserModel, keras: Any, file: KerasFile, given: FoundFile, *, is_only_way: bool
) -> tuple[Any | None, str]:
    """Returns a model that the user's function has made, with the file's weights; None and why, if it has not.

    Args:
        is_only_way: Take them as well where the configurations do not say whether the layers are the same: where they
            are others, their names or shapes differ.
    """
    by = f"{given.name} with its assets"
    try:
        built = given.build(dict(given.params), dict(given.assets))
        is_same = _is_same(keras, built, file)
        if is_same is False or (is_same is None and not is_only_way):
            return None, f"{by} makes a model of other layers"
        if file.has_assets and is_same:
            return None, "layers of it keep more than weights in the file, such as a vocabulary that was adapted"
        optimizer = _optimizer_of(built, file) if given.with_optimizer else None
        if not is_only_way and given.with_optimizer and optimizer is None:
            return None, f"{by} compiles another optimizer"
        build_layers(built, lambda: model.layout.x(example(model.spec)))
        if not built.built:
            traced(lambda: built(model.layout.x(example(model.spec)), training=False))
        if optimizer is not None:
            optimizer.build(built.trainable_variables)
        with warnings.catch_warnings():  # of an optimizer whose state is not wanted
            warnings.simplefilter("ignore", UserWarning)
            built.load_weights(str(given.file))
    except Exception as error:  # noqa: BLE001 - the user's function and Keras raise all kinds
        return None, f"{by} fails, or has other weights ({first_line(error)[:_SHOWN]})"
    return built, ""


def _is_same(keras: Any, built: Any, file: KerasFile) -> bool | None:
    try:
        ours = keras.saving.serialize_keras_object(built)
    except Exception:  # noqa: BLE001 - a model that cannot be written: nobody knows
        return None
    return same_layers(file.config, ours)


def _optimizer_of(built: Any, file: KerasFile) -> Any | None:
    """Returns a model's optimizer if it is of the class that the file's is of."""
    compiled = file.config.get("compile_config")
    theirs = compiled.get("optimizer") if isinstance(compiled, Mapping) else None
    kind = theirs.get("class_name") if isinstance(theirs, Mapping) else theirs
    ours = getattr(built, "optimizer", None)
    return ours if type(ours).__name__.lower() == str(kind).lower() else None
