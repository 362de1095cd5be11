"""The model as it leaves a run: a SavedModel that needs no Python code, and a `.keras` file to go on from."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.feature import FeedSpec
from sparktf.trainer.model import KerasModel


def export_model(model: KerasModel, assets: dict[str, Any], folder: Path) -> None:
    """Writes `saved_model/`, `model.keras` and `assets.json` below the folder.

    The SavedModel's signature `serving_default` takes one tensor `[batch, ...]` for each input, by the names of
    `data.inputs`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flavour = importlib.import_module(model.flavour)
    archive = flavour.export.ExportArchive()
    archive.track(model.model)
    archive.add_endpoint("serve", _serving_function(model), input_signature=[serving_signature(model.spec)])
    options = {"verbose": False} if model.flavour == "keras" else {}
    archive.write_out(str(folder / "saved_model"), **options)
    model.model.save(str(folder / "model.keras"))
    (folder / "assets.json").write_text(json.dumps(assets, indent=1, sort_keys=True))


def serving_signature(spec: FeedSpec) -> dict[str, Any]:
    """Returns the `tf.TensorSpec` of every input, by name."""
    return {f.name: tf.TensorSpec((None, *f.shape), f.dtype, name=f.name) for f in spec.inputs}


def _serving_function(model: KerasModel) -> Any:
    """Returns a function from a dict of inputs to a dict of outputs."""
    names = [t.name for t in model.spec.targets]
    outputs = tuple(getattr(model.model, "output_names", None) or names)

    def serve(inputs: dict[str, Any]) -> dict[str, Any]:
        x = next(iter(inputs.values())) if len(inputs) == 1 else inputs
        y = model.model(x, training=False)
        if isinstance(y, dict):
            return y
        if isinstance(y, (list, tuple)):
            return dict(zip(outputs, y, strict=True))
        return {names[0]: y}

    return serve
