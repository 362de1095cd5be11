"""What a synchronous worker traces of a model before the first update, which is a good part of its start."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import lake
from trainer.refused import LABEL, NUMBERS, functional

from sparktf.feature import FeedSpec
from sparktf.trainer.sync.exchange.linked import LinkedExchange


def gradients_traced(flavour: str) -> list[int]:
    """Returns how often a layer is asked for its gradient before an update, by how its worker sums them."""
    keras, tf = importlib.import_module(flavour), importlib.import_module("tensorflow")
    asked: list[Any] = []

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def noting(x: Any) -> Any:
        def gradient(dy: Any) -> Any:
            asked.append(dy)
            return dy

        return tf.identity(x), gradient

    class Notes(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return noting(x)

    def build(*_: Any) -> Any:
        return functional(keras, between=keras.Sequential([keras.layers.Dense(4), Notes()]))

    config = lake.job(Path(), "anything", params={"flavour": flavour}, data=lake.NUMBERS_TO_LABEL)
    user_model = importlib.import_module("sparktf.trainer.model.model").UserModel
    step = importlib.import_module("sparktf.trainer.sync.step")
    sums = importlib.import_module("sparktf.trainer.sync.gradients")
    alone = LinkedExchange(0, 1, 0, {}, attempt=1)
    counts = []
    for total in (None, sums.ExchangeSum(alone), sums.CollectiveSum()):
        asked.clear()
        model = user_model(build, config, {}, FeedSpec(features=(NUMBERS, LABEL)))
        step.UpdateFunction(tf.distribute.get_strategy(), model, total=total, max_rows=8)
        counts.append(len(asked))
    return counts


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_gradients_are_traced_before_the_first_update_only_where_something_must_be_known_of_them(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    """Whether they ask for other replicas, and over TensorFlow's collectives their sizes."""
    assert elsewhere.submit(gradients_traced, flavour).result() == [0, 1, 2]
