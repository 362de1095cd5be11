"""By what names variables of two models are the same, whatever the process had made before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sparktf.trainer.model.variable_names import VariableNames, each_once, snake_case


class Variable:
    def __init__(self, name: str) -> None:
        self.name = name


class Layer:
    """A layer as Keras has it: some are within others, and each has variables of its own."""

    def __init__(self, name: str, *layers: Layer, variables: tuple[str, ...] = ()) -> None:
        self.name = name
        self._layers = layers
        self._trainable_variables = [Variable(variable) for variable in variables]

    def _flatten_layers(self, *, recursive: bool = True, include_self: bool = True) -> Iterator[Layer]:
        if include_self:
            yield self
        for layer in self._layers:
            yield from layer._flatten_layers(recursive=recursive) if recursive else [layer]


class Dense(Layer):
    def __init__(self, name: str) -> None:
        super().__init__(name, variables=("kernel", "bias"))


class BatchNormalization(Layer):
    pass


class Model(Layer):
    pass


def names_of(model: Layer) -> list[str]:
    names, layers = VariableNames(model), list(model._flatten_layers())
    return [names.of_variable(variable) for layer in layers for variable in layer._trainable_variables]


def test_numbers_of_layers_are_counted_within_the_model() -> None:
    first = Model(
        "model", Dense("dense"), Dense("dense_1"), BatchNormalization("batch_normalization", variables=("g",))
    )
    later = Model(
        "model_3", Dense("dense_7"), Dense("dense_12"), BatchNormalization("batch_normalization_2", variables=("g",))
    )
    assert names_of(first) == names_of(later)
    assert names_of(later) == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias", "batch_normalization/g"]


def test_the_order_is_that_in_which_they_were_made() -> None:
    assert names_of(Model("m", Dense("dense_10"), Dense("dense_9"))) == [
        "dense_1/kernel",
        "dense_1/bias",
        "dense/kernel",
        "dense/bias",
    ]


def test_a_name_of_the_users_own_stays_whatever_number_is_in_it() -> None:
    class Embedding(Layer):
        pass

    model = Model("m", *(Embedding(f"emb_{number}", variables=("embeddings",)) for number in (2, 3)))
    assert names_of(model) == ["emb_2/embeddings", "emb_3/embeddings"]


def test_layers_within_layers_have_their_names_before_their_own() -> None:
    model = Model("m", Model("encoder", Dense("dense_4")), Model("decoder", Dense("dense_5")), Dense("label"))
    assert names_of(model) == [
        "encoder/dense/kernel",
        "encoder/dense/bias",
        "decoder/dense_1/kernel",
        "decoder/dense_1/bias",
        "label/kernel",
        "label/bias",
    ]


def test_variables_of_the_model_itself_and_of_nobody_have_their_own_names_alone() -> None:
    model = Model("m", variables=("temperature",))
    assert names_of(model) == ["temperature"]
    assert VariableNames(model).of_variable(Variable("of_nobody/kernel:0")) == "kernel"


def test_names_that_are_alike_are_told_apart() -> None:
    assert list(each_once(["a", "b", "a", "a"])) == ["a", "b", "a#2", "a#3"]


def test_class_names_become_layer_names_as_in_keras() -> None:
    names: dict[str, Any] = {
        name: snake_case(name) for name in ("Dense", "BatchNormalization", "GRU", "Conv2D", "LSTMCell")
    }
    assert names == {
        "Dense": "dense",
        "BatchNormalization": "batch_normalization",
        "GRU": "gru",
        "Conv2D": "conv2d",
        "LSTMCell": "lstm_cell",
    }
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names.values())
