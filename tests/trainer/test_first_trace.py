"""What a synchronous worker traces of a model before the first update, which is a good part of its start."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
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


def joined() -> tuple[int, bool]:
    """Returns how often a layer is called while the first update is made after `trace`, and whether that changed it."""
    keras, tf = importlib.import_module("keras"), importlib.import_module("tensorflow")
    calls: list[Any] = []

    class Notes(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            calls.append(x)
            return x

    def build(*_: Any) -> Any:
        return functional(keras, between=keras.Sequential([keras.layers.Dense(4), Notes()]))

    config = lake.job(Path(), "anything", params={"flavour": "keras"}, data=lake.NUMBERS_TO_LABEL)
    step = importlib.import_module("sparktf.trainer.sync.step")
    total = importlib.import_module("sparktf.trainer.sync.gradients").ExchangeSum(
        LinkedExchange(0, 1, 0, {}, attempt=1)
    )
    spec = FeedSpec(features=(NUMBERS, LABEL))
    model = importlib.import_module("sparktf.trainer.model.model").UserModel(build, config, {}, spec)
    update = step.UpdateFunction(tf.distribute.get_strategy(), model, total=total, max_rows=8)

    def state() -> list[bytes]:
        return [variable.numpy().tobytes() for variable in (*model.model.variables, *model.optimizer.variables)]

    before = state()
    update.trace()
    is_changed = state() != before
    calls.clear()
    example = importlib.import_module("sparktf.trainer.model.tensors").example
    update(example(spec), np.array([[1]], np.int32), np.array([1], np.int32))
    assert state() != before
    return len(calls), is_changed


def test_who_joins_a_gang_traces_the_update_before_so_that_the_others_do_not_wait_for_that(
    elsewhere: ProcessPoolExecutor,
) -> None:
    assert elsewhere.submit(joined).result() == (0, False)
