"""Fetches another run's model, and puts its weights into the model that a run begins with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparktf.errors import ModelContractError
from sparktf.results.carried import Carried
from sparktf.trainer.model.carry import Side, carry
from sparktf.trainer.model.lookups import inputs_of
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import example
from sparktf.trainer.node.begun_from import FoundFile, begun_from
from sparktf.trainer.node.checkpoint import download
from sparktf.trainer.node.place import Place
from sparktf.wire.model_source import ModelSource

_SUFFIX = ".keras"
_ASSETS = "assets.json"
_KEY = "train.init_from"


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
    download(place.file_systems.open(source.path), source.path, files, folder)
    return folder / found[0]


def _assets(folder: Path) -> dict[str, Any]:
    path = folder / _ASSETS
    found = json.loads(path.read_text()) if path.is_file() else {}
    return found if isinstance(found, dict) else {}
