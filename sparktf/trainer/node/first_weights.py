"""The weights that a run begins with where another run's model is to begin from: fetched, and put into the model."""

from __future__ import annotations

import importlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparktf.carried import Carried
from sparktf.errors import ModelContractError
from sparktf.trainer.model.carry import Side, carry
from sparktf.trainer.model.lookups import inputs_of
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import example
from sparktf.trainer.model.tracing import build_layers, traced
from sparktf.trainer.model.variable_names import layers_of
from sparktf.trainer.node.checkpoint import fetch
from sparktf.trainer.node.place import Place
from sparktf.wire.model_source import ModelSource

_SUFFIX = ".keras"
_ASSETS = "assets.json"
_KEY = "train.init_from"
_SHOWN = 240


def first_weights(place: Place, model: UserModel, build: Callable[..., Any]) -> Carried | None:
    """Gives a model the weights that the run is to begin with; returns what they are, None for the model's own.

    All nodes call it that hold variables of the model, before the first update.

    Args:
        build: The user's function that has made the model.

    Raises:
        ModelContractError: what it is to begin from is none of this Keras's models, or has nothing in common with it.
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
        theirs = _loaded(model, file, source.label, build, place, assets)
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
            f"train.init_optimizer: {source.label} has no state of a {type(model.optimizer).__name__} that has made "
            "updates: the optimizer begins anew"
        )
    return carried.model_copy(update={"run_id": source.run_id, "full_date": source.full_date})


def _fetched(place: Place, source: ModelSource, folder: Path) -> Path:
    """Fetches the model; returns where it is."""
    found = sorted(name for name in source.files if name.endswith(_SUFFIX) and "/" not in name)
    if not found:
        raise ModelContractError(f"{_KEY}: {source.label} has no {_SUFFIX} file: it is no model that Keras has saved")
    files = [found[0], *(name for name in source.files if name == _ASSETS)]
    fetch(place.file_systems.open(source.path), source.path, files, folder)
    return folder / found[0]


def _assets(folder: Path) -> dict[str, Any]:
    path = folder / _ASSETS
    found = json.loads(path.read_text()) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _loaded(
    model: UserModel, file: Path, label: str, build: Callable[..., Any], place: Place, assets: dict[str, Any]
) -> Any:
    """Returns the Keras model of a file.

    One that Keras cannot make by itself is built by the user's function, from the assets that lie beside the file.
    """
    if (flavour := _flavour_of(file, label)) != model.flavour:
        raise ModelContractError(
            f"{_KEY}: {label} is a model of {flavour}, and this one is of {model.flavour}: neither reads the other's"
        )
    keras = importlib.import_module(model.flavour)
    importlib.import_module(f"sparktf.layers.{model.flavour}")  # registers what the file may name
    classes = {type(layer).__name__: type(layer) for layer in layers_of(model.model)}
    named = {getattr(loss, "__name__", type(loss).__name__): loss for loss in model.losses() if callable(loss)}
    with_optimizer = place.spec.config.train.init_optimizer
    try:
        return keras.models.load_model(str(file), custom_objects={**named, **classes}, compile=with_optimizer)
    except Exception as error:  # noqa: BLE001 - Keras raises all kinds
        first = error
    try:
        built = build(dict(place.spec.config.params), assets)
        build_layers(built, lambda: model.layout.x(example(model.spec)))
        traced(lambda: built(model.layout.x(example(model.spec)), training=False))
        built.load_weights(str(file))
    except Exception as error:
        raise ModelContractError(
            f"{_KEY}: {label} cannot be loaded ({_short(first)}), nor built anew by {place.spec.config.model} with its "
            f"assets ({_short(error)})"
        ) from error
    return built


def _flavour_of(file: Path, label: str) -> str:
    """Returns which Keras has saved a file."""
    try:
        with zipfile.ZipFile(file) as archive:
            version = str(json.loads(archive.read("metadata.json"))["keras_version"])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ModelContractError(f"{_KEY}: {label} is no model that Keras has saved: {error}") from None
    return "tf_keras" if version.startswith("2.") else "keras"


def _short(error: BaseException) -> str:
    """Returns what Keras says at length in one line."""
    return " ".join(str(error).split())[:_SHOWN]
