"""Exports a model: a SavedModel that needs no Python code, and a `.keras` file from which runs can begin."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.feature import Feature, FeedSpec
from sparktf.trainer.model.logits import gives_logits
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.predictions import ROW_SPLITS, named_outputs
from sparktf.trainer.model.tensors import Tensors
from sparktf.trainer.model.written import KERAS, check_written
from sparktf.wire.exported import EXPORTED, ModelFeed, ModelOutput, inputs_alone


def export_model(
    model: UserModel,
    assets: dict[str, Any],
    folder: Path,
    *,
    source_version: int | None = None,
    formats: Sequence[str] = (KERAS,),
) -> None:
    """Writes `saved_model/`, `assets.json` and `feed.json` below the folder, and `model.keras` if `formats` says so.

    The SavedModel's signature `serving_default` takes a tensor `[batch, ...]` for each of `data.inputs`, by name; for a
    ragged one `name`, all values [n], and `name_row_splits`, int64 [batch + 1].

    Raises:
        ModelContractError: Keras cannot write the model into a `.keras` file.
    """
    check_written(model.model, formats)
    folder.mkdir(parents=True, exist_ok=True)
    flavour = importlib.import_module(model.flavour)
    archive = flavour.export.ExportArchive()
    archive.track(model.model)
    serve = tf.function(_serving_function(model), [serving_signature(model.spec)], autograph=False)
    outputs = serve.get_concrete_function().structured_outputs
    archive.add_endpoint("serve", serve)
    options = {"verbose": False} if model.flavour == "keras" else {}
    with _own_signature_only(model):
        archive.write_out(str(folder / "saved_model"), **options)
    if KERAS in formats:
        model.model.save(str(folder / "model.keras"))
    (folder / "assets.json").write_text(json.dumps(assets, indent=1, sort_keys=True))
    exported = ModelFeed(
        spec=inputs_alone(model.spec),
        outputs=tuple(_output(*output) for output in sorted(outputs.items())),
        source_version=source_version,
        from_logits=gives_logits(model.model),
    )
    (folder / EXPORTED).write_text(exported.model_dump_json(indent=1))


def _output(name: str, spec: Any) -> ModelOutput:
    # TensorFlow may not know the rank of an output, which does not matter for an export.
    shape = [None] if spec.shape.rank is None else spec.shape.as_list()[1:]
    return ModelOutput(name=name, dtype=spec.dtype.name, shape=tuple(shape))


def serving_signature(spec: FeedSpec) -> dict[str, Any]:
    """Returns the `tf.TensorSpec` of every input by name; a signature takes the parts of ragged tensors."""
    found = {f.name: tf.TensorSpec((None, *f.shape), f.dtype, name=f.name) for f in spec.inputs}
    splits = [f"{f.name}{ROW_SPLITS}" for f in spec.inputs if f.ragged]
    return found | {name: tf.TensorSpec((None,), tf.int64, name=name) for name in splits}


def serving_tensors(spec: FeedSpec, rows: Tensors) -> dict[str, Any]:
    """Returns rows in the form of the signature."""
    found = {}
    for f in spec.inputs:
        value = rows[f.key]
        found[f.name] = value.flat_values if f.ragged else value
        if f.ragged:
            found[f"{f.name}{ROW_SPLITS}"] = value.row_splits
    return found


@contextmanager
def _own_signature_only(model: UserModel) -> Iterator[None]:
    """Keeps Keras 3 from tracing its own signature, which treats ragged inputs as dense ones."""
    if model.flavour != "keras" or not any(feature.ragged for feature in model.spec.inputs):
        yield
        return
    kind = type(model.model)
    kind._default_save_signature = None  # hides a property of the base class
    try:
        yield
    finally:
        del kind._default_save_signature


def _whole(inputs: dict[str, Any], feature: Feature) -> Any:
    """Returns an input of the model."""
    value = inputs[feature.name]
    if not feature.ragged:
        return value
    return tf.RaggedTensor.from_row_splits(value, inputs[f"{feature.name}{ROW_SPLITS}"])


def _serving_function(model: UserModel) -> Any:
    """Returns a function from a dict of inputs to a dict of outputs."""
    names = [t.name for t in model.spec.targets]
    outputs = tuple(getattr(model.model, "output_names", None) or names)

    def serve(inputs: dict[str, Any]) -> dict[str, Any]:
        x = {f.name: _whole(inputs, f) for f in model.spec.inputs}
        x = next(iter(x.values())) if len(x) == 1 else x
        return named_outputs(model.model(x, training=False), outputs, names)

    return serve
