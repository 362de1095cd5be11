"""What becomes of a champion beside models that take other rows than it did; in a process that has TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError
from sparktf.feature import Feature, FeedSpec, Kind

INPUTS: dict[str, tuple[str, tuple[int, ...]]] = {"x": ("float32", (2,)), "colour": ("string", ())}


def problems(folder: str, cases: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns by case why a champion with `INPUTS` and one output cannot be compared with; "" where it can.

    Args:
        cases: `inputs` and `outputs` (their width) of the challenger, or `damage`, a file that is overwritten.
    """
    export = importlib.import_module("sparktf.trainer.model.export")
    champion = importlib.import_module("sparktf.trainer.model.champion")
    found = {}
    for number, (case, asked) in enumerate(cases.items()):
        at = Path(folder, str(number))
        export.export_model(_model(INPUTS, 1), {}, at)
        if "damage" in asked:
            (at / "saved_model" / asked["damage"]).write_bytes(b"torn")
        beside = _model(asked.get("inputs", INPUTS), asked.get("outputs", 1))
        try:
            champion.Champion(at / "saved_model", beside)
        except ModelContractError as error:
            found[case] = str(error)
        else:
            found[case] = ""
    return found


def _model(inputs: Mapping[str, tuple[str, tuple[int, ...]]], outputs: int) -> Any:
    keras = importlib.import_module("keras")
    model = importlib.import_module("sparktf.trainer.model.model")
    features = [
        Feature(kind=Kind.INPUT, name=name, columns=(name,), dtype=dtype, shape=shape)
        for name, (dtype, shape) in inputs.items()
    ]
    target = Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype="float32")

    def build(params: Any, assets: Any) -> Any:
        given = {name: keras.Input(shape, dtype=dtype, name=name) for name, (dtype, shape) in inputs.items()}
        numbers = [
            keras.layers.Hashing(8, output_mode="one_hot")(keras.layers.Reshape((1,))(tensor))
            if inputs[name][0] == "string"
            else keras.ops.cast(keras.layers.Flatten()(tensor), "float32")
            for name, tensor in given.items()
        ]
        made = keras.Model(given, keras.layers.Dense(outputs, name="y")(keras.layers.Concatenate()(numbers)))
        made.compile("sgd", "mse")
        return made

    plain: dict[str, Any] = {"name": "t", "model": "m:build", "output": {"path": "/nowhere"}}
    config = JobConfig.model_validate({**plain, "data": {"path": "l", "inputs": {"x": "x"}, "targets": {"y": "y"}}})
    return model.UserModel(build, config, {}, FeedSpec(features=(*features, target)))
