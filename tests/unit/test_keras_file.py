"""What a `.keras` file would run that others may have written, and whether its weights are of a model's layers."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sparktf.errors import ModelContractError
from sparktf.keras_file import read_keras_file, same_layers, strangers


def named(kind: str, module: str | None = "keras.layers", registered: str | None = None, **config: Any) -> Any:
    return {"class_name": kind, "config": config, "module": module, "registered_name": registered}


def function(name: str, module: str | None = "builtins") -> Any:
    return {"class_name": "function", "config": name, "module": module, "registered_name": "function"}


def model(*layers: Any, **more: Any) -> Any:
    return named("Functional", "keras.src.models.functional", layers=list(layers), **more)


def found(config: Any, *modules: str, registered: tuple[str, ...] = ()) -> tuple[str, ...]:
    return strangers(config, modules, registered)


@pytest.mark.parametrize(
    "layer",
    [
        named("Dense", kernel_initializer=named("GlorotUniform", "keras.initializers"), activation="relu"),
        named("Dense", activation=function("gelu"), dtype=named("DTypePolicy", "keras", name="float32")),
        named("GetItem", "keras.src.ops.numpy", "GetItem"),
        named("ShardedEmbedding", "sparktf.layers.keras", "sparktf>ShardedEmbedding"),
        named("Own", "churn.layers", "Own"),
        named("Own", None, "Own"),
        named("Own", "elsewhere", "lab>Own"),
        named("Functional", "keras.src.engine.functional"),
        named("TFOpLambda", "keras.src.layers.core.tf_op_layer", function="math.reduce_mean"),
        named("TFOpLambda", "keras.layers", function="concat"),
        named("Dense", activation=function("relu", "keras.activations")),
        named("Dense", activation=function("swish2", "churn.layers")),
    ],
)
def test_keras_our_layers_and_the_users_are_no_strangers(layer: Any) -> None:
    assert found(model(layer), "churn.layers", registered=("lab>Own",)) == ()


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (named("Lambda", function=function("system", "os")), "a Lambda"),
        (named("Lambda", function="4wEAAAAAAAAA", function_type="lambda", module="m"), "a Lambda"),
        (named("Dense", activation={"class_name": "__lambda__", "config": {"value": "4wEA"}}), "a lambda"),
        (named("TFSMLayer", filepath="/tmp/x"), "a TFSMLayer"),
        (named("Dense", activation=function("system", "os")), "os.system"),
        (named("Dense", activation=function("eval")), "builtins.eval"),
        (named("Own", "elsewhere", "Own"), "elsewhere.Own"),
        (named("Own", "churn.layers.more", "Own"), "churn.layers.more.Own"),
        # tf_keras takes a name with a dot for one that lies within another.
        (named("Dense", activation=function("os.system", "churn.layers")), "churn.layers.os.system"),
        (named("Dense", activation=function("os.system", "keras.src.layers.core.lambda_layer")), "os.system"),
        (named("Dense", activation=function("get_file", "keras.utils")), "keras.utils.get_file"),
        (named("Dense", activation=function("load_model", "keras.models")), "keras.models.load_model"),
        (named("Dense", activation=function("enable_unsafe_deserialization", "keras.config")), "keras.config"),
        (named("Dense", activation=function("x", "kerasx.layers")), "kerasx.layers.x"),
        (named("TFOpLambda", function="io.write_file"), "tf.io.write_file"),
        (named("TFOpLambda", function="py_function"), "tf.py_function"),
        (named("TFOpLambda", function="raw_ops.WriteFile"), "tf.raw_ops.WriteFile"),
        (named("Dense", output_shape_module="os"), "os"),
    ],
)
def test_code_of_others_is_found_wherever_it_stands(layer: Any, said: str) -> None:
    strange = found(model(named("Dense"), named("Wrapper", layer=layer)), "churn.layers")
    assert any(said in stranger for stranger in strange)
    assert not any("Dense" in stranger or "Wrapper" in stranger for stranger in strange)


def test_strangers_of_the_training_are_found_too() -> None:
    config = {**model(named("Dense")), "compile_config": {"loss": function("system", "os")}}
    assert found(config) == ("os.system",)


Layer = tuple[str, str, dict[str, Any]]

LAYERS: list[Layer] = [
    ("StringLookup", "string_lookup", {"vocabulary": ["a", "b"], "num_oov_indices": 1}),
    ("Embedding", "embedding_1", {"input_dim": 4}),
    ("Dropout", "dropout", {"rate": 0.1, "seed": None}),
    ("Dense", "dense", {"units": 8, "activation": "relu", "kernel_initializer": {"class_name": "Zeros"}}),
    ("Dense", "label", {"units": 1}),
]


def functional(*layers: Layer) -> Any:
    made = []
    for kind, name, config in layers:
        tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}
        made.append({**named(kind), "config": {**config, "name": name}, "inbound_nodes": [{"args": [tensor]}]})
    return model(*made, name="functional_3", input_layers=[[layers[0][1], 0, 0]])


BEFORE = functional(*LAYERS)


def after(index: int, kind: str = "", name: str = "", **config: Any) -> Any:
    """Returns the configuration with one layer changed."""
    layers, was = list(LAYERS), LAYERS[index]
    layers[index] = (kind or was[0], name or was[1], {**was[2], **config})
    return functional(*layers)


@pytest.mark.parametrize(
    "same",
    [
        after(0, name="string_lookup_7"),  # numbered by Keras, as the process made it
        after(3, name="dense_12"),
        after(2, rate=0.5, seed=3),
        after(3, activation="gelu", kernel_initializer={"class_name": "Ones"}),
        after(3, brought_by_a_newer_keras=True),
    ],
)
def test_what_a_weight_means_is_the_same_whatever_else_is_set(same: Any) -> None:
    assert same_layers(BEFORE, same) is True


@pytest.mark.parametrize(
    "other",
    [
        after(0, vocabulary=["b", "a"]),
        after(0, num_oov_indices=2),
        after(3, units=9),
        after(3, kind="Own"),
        after(4, name="other"),
        functional(*LAYERS[:4]),
        functional(*reversed(LAYERS)),
    ],
)
def test_weights_of_other_layers_are_not_taken_for_these(other: Any) -> None:
    assert same_layers(BEFORE, other) is False


def test_tf_keras_numbers_models_operations_and_inputs_too() -> None:
    theirs, ours = (
        functional(
            ("InputLayer", f"input_{number}", {}),
            ("TFOpLambda", f"tf.math.add_{number}", {"function": "math.add"}),
            ("Functional", f"model_{number}", {}),
        )
        for number in (1, 2)
    )
    assert same_layers(theirs, ours) is True


def test_a_lambda_has_no_weights_whatever_it_does() -> None:
    theirs, ours = (model(named("Lambda", name="same", function={"value": value})) for value in ("4wEA", "4wEB"))
    assert same_layers(theirs, ours) is True


def test_of_a_subclassed_model_nobody_knows_the_layers() -> None:
    assert same_layers(named("Own", "m", "Own", width=3), BEFORE) is None


def test_a_file_that_is_none_of_keras_is_refused_and_another_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    file.write_bytes(b"no zip")
    with pytest.raises(ModelContractError, match=r"version 14 is not a \.keras file"):
        read_keras_file(file, "version 14")
    for version, config in (("2.15.0", model()), ("3.13.2", [])):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("metadata.json", json.dumps({"keras_version": version}))
            archive.writestr("config.json", json.dumps(config))
            archive.writestr("assets/layers/string_lookup/vocabulary.txt", "a\n")
        if config:
            assert read_keras_file(file, "version 14") == ("tf_keras", config, True)
        else:
            with pytest.raises(ModelContractError, match=r"its config\.json is not an object"):
                read_keras_file(file, "version 14")
