"""An exported classifier says whether its output is logits or probabilities: Spark ML has its columns made by that."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import pytest
from trainer import scales

PROBABILITIES = [
    "softmax",
    "softmax, and a loss from logits",
    "softmax in a layer of its own",
    "softmax as an Activation",
    "softmax in a nested model",
    "softmax in a Sequential",
    "sigmoid",
    "sigmoid as an operation",
    "a loss from probabilities by name",
    "a loss from probabilities",
]
LOGITS = [
    "a loss from logits",
    "a loss from logits, for two",
    "a function from logits",
    "a subclass, and a loss from logits",
    "a loss of the user's",
]
UNKNOWN = [
    "a subclass, and a loss of the user's",
    "a regression",
    "a regression's object",
    "not compiled",
    "several outputs",
]


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_a_models_last_layer_and_its_loss_say_whether_it_gives_logits(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    found = elsewhere.submit(scales.said_of_outputs, flavour).result()
    assert found == {**dict.fromkeys(PROBABILITIES, False), **dict.fromkeys(LOGITS, True), **dict.fromkeys(UNKNOWN)}
