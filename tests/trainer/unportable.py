"""Models that train well, and of which something is amiss once they are used by others; and one that nothing is."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer import lake

from sparktf.config.job import JobConfig
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import ModelContractError
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.feed.sample import RowSample
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage
from sparktf.trainer.node.fresh import check_loads


def model(params: Mapping[str, Any], assets: Mapping[str, Any]) -> Any:
    """A model of text and numbers with a layer that Keras does not know, which is as `params["kind"]` says."""
    del assets
    keras, tf = importlib.import_module(params["flavour"]), importlib.import_module("tensorflow")
    kind, traces = params["kind"], []

    class Untold(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            traces.append(x)
            if kind == "python code":
                y = tf.py_function(lambda x: x * 2.0, [x], tf.float32)
                y.set_shape(x.shape)
                return y
            if kind == "another one each time":
                return x * (1.0 + 0.01 * len(traces))
            return x + tf.random.normal(tf.shape(x)) if kind == "random" else x

        def compute_output_spec(self, x: Any) -> Any:  # Keras 3
            return keras.KerasTensor(x.shape)

    numbers = keras.Input((len(lake.NUMBERS),), name="numbers")
    colour = keras.Input((), name="colour", dtype="string")
    others = 0 if kind in ("known words alone", "sound") else 1
    codes = keras.layers.StringLookup(vocabulary=list(lake.COLOURS), num_oov_indices=others)(colour)
    known = keras.layers.Concatenate()([keras.layers.Embedding(5, 2)(codes), numbers])
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(8, "tanh")(known))
    hidden = hidden if kind in ("of Keras alone", "known words alone") else Untold()(hidden)
    label = keras.layers.Dense(lake.CLASSES, name="label")(hidden)
    price = keras.layers.Dense(1, name="price")(hidden)
    built = keras.Model({"numbers": numbers, "colour": colour}, [label, price])
    built.compile("sgd", {"label": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "price": "mse"})
    return built


def job(folder: Path, kind: str, **sections: Any) -> JobConfig:
    """Returns the configuration of a run that trains and publishes such a model on the lake in `folder/lake`."""
    data = {
        "inputs": {"numbers": lake.NUMBERS, "colour": "colour"},
        "targets": {"label": "label", "price": "price"},
        **sections.pop("data", {}),
    }
    params = {"flavour": sections.pop("flavour", "keras"), "kind": kind}
    found = lake.job(folder, "model", data=data, params=params, **{"publish": {}, **sections})
    return found.model_copy(update={"model": "trainer.unportable:model"})


def try_out(folder: str, kind: str, flavour: str, spoiled: str = "", *, here: bool = False) -> str:
    """Exports a model that was not trained, and has a fresh process load it; returns what is wrong with it.

    Args:
        spoiled: Has the "SavedModel" or the "model.keras" be that of other weights.
        here: This process loads it in the fresh one's place.
    """
    # TensorFlow is not imported where this module is: a test's process has none.
    export_model = importlib.import_module("sparktf.trainer.model.export").export_model
    predictions_of = importlib.import_module("sparktf.trainer.model.predict").predictions_of
    config = job(Path(folder), kind, flavour=flavour)
    plan = plan_source(config, open_storage, None)  # type: ignore[arg-type]
    (share,) = plan.assignments(Stream.TRAIN, 0, [(0, plan.rows(Stream.TRAIN))], [""], rebalance=True)
    sample = RowSample(plan.spec)
    with NodeFeed(plan.spec, PlannedParts(plan.spec, share, open_storage), sample=sample) as feed:
        feed.next_rows(7)
        feed.next_rows(64)
    built = importlib.import_module("sparktf.trainer.model.model").UserModel(model, config, {}, plan.spec)
    exported, work = Path(folder, "exported"), Path(folder, "work")
    work.mkdir()
    weights = built.model.get_weights()
    try:
        if spoiled == "SavedModel":
            built.model.set_weights([weight + 0.001 for weight in weights])
        export_model(built, {}, exported)
        built.model.set_weights(weights)
        stored = predictions_of(built, sample.columns)
        stored.write(exported)
        assert stored.rows == 32
        if spoiled == "model.keras":
            built.model.set_weights([weight + 0.001 for weight in weights])
            built.model.save(exported / "model.keras")
        if here:
            return importlib.import_module("sparktf.trainer.reloaded").compare_export(exported, stored)[0] or ""
        check_loads(exported, work, limit_s=120, refused={"trainer"})
    except ModelContractError as error:
        return str(error)
    return ""
