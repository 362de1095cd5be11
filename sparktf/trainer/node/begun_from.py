"""The model that a run begins from: fetched, loaded by its weights if possible, never by running code of its file."""

from __future__ import annotations

import importlib
import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sparktf.errors import ModelContractError
from sparktf.keras_file import KerasFile, read_keras_file, same_layers, strangers
from sparktf.results.carried import Carried
from sparktf.trainer.model.carry import Side, carry
from sparktf.trainer.model.lookups import inputs_of
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.said import first_line
from sparktf.trainer.model.tensors import example
from sparktf.trainer.model.tracing import build_layers, traced
from sparktf.trainer.model.variable_names import layers_of
from sparktf.trainer.node.checkpoint import download
from sparktf.trainer.node.place import Place
from sparktf.wire.model_source import ModelSource

_KEY = "train.init_from"
_SUFFIX = ".keras"
_ASSETS = "assets.json"
_SHOWN = 240


class FoundFile(NamedTuple):
    """A model's file, and how to build the same model."""

    file: Path
    label: str  # Name of the file in messages
    build: Callable[..., Any]  # The user's function that made the run's own model
    name: str  # `module:function` of that function
    params: Mapping[str, Any]  # Its first argument
    assets: Mapping[str, Any]  # Its second argument: the assets beside the file
    modules: frozenset[str]  # The user's modules
    with_optimizer: bool  # Restore the optimizer's state, too


def begun_from(model: UserModel, given: FoundFile) -> Any:
    """Returns the Keras model of a file.

    If the user's function still builds a model of the same layers, that gets the file's weights. Otherwise Keras builds
    it from the file's configuration, unless that names foreign code: anybody who can write the file could run any
    program that way.

    Raises:
        ModelContractError: it is not a model of this Keras, or neither way works.
    """
    file = read_keras_file(given.file, f"{_KEY}: {given.label}")
    if file.flavour != model.flavour:
        raise ModelContractError(
            f"{_KEY}: {given.label} is a model of {file.flavour}, and this run uses {model.flavour}, which cannot "
            "read it"
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
            f"which is never run, and its weights alone cannot be loaded: {why}"
        )
    try:
        return keras.models.load_model(str(given.file), custom_objects=objects, compile=given.with_optimizer)
    except Exception as error:  # noqa: BLE001 - Keras raises all kinds
        first = error
    # Keras cannot build it, so it could not compare the layers either.
    found, why = _weights_alone(model, keras, file, given, is_only_way=True)
    if found is None:
        raise ModelContractError(
            f"{_KEY}: {given.label} can neither be loaded ({first_line(first)[:_SHOWN]}) nor be built anew: {why}"
        ) from first
    return found


def _objects_of(model: UserModel) -> dict[str, Any]:
    """Returns the classes and losses of the run's own model, by the names that the file may use."""
    classes = {type(layer).__name__: type(layer) for layer in layers_of(model.model)}
    losses = {getattr(loss, "__name__", type(loss).__name__): loss for loss in model.losses() if callable(loss)}
    return {**losses, **classes}


def _weights_alone(
    model: UserModel, keras: Any, file: KerasFile, given: FoundFile, *, is_only_way: bool
) -> tuple[Any | None, str]:
    """Returns a model built by the user's function with the file's weights; or None, and why not.

    Args:
        is_only_way: Try even if the configurations do not show whether the layers are the same: if they are not, names
            or shapes differ.
    """
    by = f"{given.name} with its assets"
    try:
        built = given.build(dict(given.params), dict(given.assets))
        is_same = _is_same(keras, built, file)
        if is_same is False or (is_same is None and not is_only_way):
            return None, f"{by} builds a model of other layers"
        if file.has_assets and is_same:
            return None, "some layers keep more than weights in the file, such as an adapted vocabulary"
        optimizer = _optimizer_of(built, file) if given.with_optimizer else None
        if not is_only_way and given.with_optimizer and optimizer is None:
            return None, f"{by} compiles another optimizer"
        build_layers(built, lambda: model.layout.x(example(model.spec)))
        if not built.built:
            traced(lambda: built(model.layout.x(example(model.spec)), training=False))
        if optimizer is not None:
            optimizer.build(built.trainable_variables)
        with warnings.catch_warnings():  # Keras warns of an optimizer whose state is left out on purpose
            warnings.simplefilter("ignore", UserWarning)
            built.load_weights(str(given.file))
    except Exception as error:  # noqa: BLE001 - the user's function and Keras raise all kinds
        return None, f"{by} fails, or has other weights ({first_line(error)[:_SHOWN]})"
    return built, ""


def _is_same(keras: Any, built: Any, file: KerasFile) -> bool | None:
    try:
        ours = keras.saving.serialize_keras_object(built)
    except Exception:  # noqa: BLE001 - a model that cannot be serialized
        return None
    return same_layers(file.config, ours)


def _optimizer_of(built: Any, file: KerasFile) -> Any | None:
    """Returns the model's optimizer if its class is that of the file's."""
    compiled = file.config.get("compile_config")
    theirs = compiled.get("optimizer") if isinstance(compiled, Mapping) else None
    kind = theirs.get("class_name") if isinstance(theirs, Mapping) else theirs
    ours = getattr(built, "optimizer", None)
    return ours if type(ours).__name__.lower() == str(kind).lower() else None


def first_weights(place: Place, model: UserModel, build: Callable[..., Any]) -> Carried | None:
    """Gives a model the weights of `train.init_from`; returns what was carried over, None without that setting.

    Called before the first update on all nodes that hold variables; `build` is the user's function.

    Raises:
        ModelContractError: the other model is not one of this Keras, or has nothing in common with this one.
        StorageError: it cannot be fetched.
    """
    source = place.spec.init
    if source is None:
        return None
    place.enter("fetching the first weights")
    folder = place.work / "init"
    try:
        file = _fetched(place, source, folder)
        assets = _assets(folder)
        config = place.spec.config
        theirs = begun_from(
            model,
            FoundFile(
                file=file,
                label=source.label,
                build=build,
                name=config.model,
                params=config.params,
                assets=assets,
                modules=frozenset(config.modules.values()),
                with_optimizer=config.train.init_optimizer,
            ),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    train = place.spec.config.train
    ours = Side(model.model, lambda: model.layout.x(example(model.spec)), place.spec.assets)
    known = inputs_of(theirs) is not None
    x = (lambda: inputs_of(theirs)) if known else (lambda: model.layout.x(example(model.spec)))
    carried = carry(
        ours, Side(theirs, x, assets), train.init_tables, source=source.label, optimizer=train.init_optimizer
    )
    if train.init_optimizer and not carried.optimizer and place.leads:
        place.warn(
            f"train.init_optimizer: {source.label} has no state of a {type(model.optimizer).__name__} that made "
            "updates: the optimizer begins anew"
        )
    return carried.model_copy(update={"run_id": source.run_id, "full_date": source.full_date})


def _fetched(place: Place, source: ModelSource, folder: Path) -> Path:
    """Fetches the model; returns the path of its file."""
    found = sorted(name for name in source.files if name.endswith(_SUFFIX) and "/" not in name)
    if not found:
        raise ModelContractError(f"{_KEY}: {source.label} has no {_SUFFIX} file: name a model that Keras saved")
    files = [found[0], *(name for name in source.files if name == _ASSETS)]
    download(place.file_systems.open_runs(source.path), source.path, files, folder)
    return folder / found[0]


def _assets(folder: Path) -> dict[str, Any]:
    path = folder / _ASSETS
    found = json.loads(path.read_text()) if path.is_file() else {}
    return found if isinstance(found, dict) else {}
