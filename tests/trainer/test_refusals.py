"""Models that cannot be trained exactly are refused by name, before anything is trained."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from split import only
from trainer import lake, refused
from trainer.local_gang import LocalGang

from sparktf.errors import ModelContractError, Verdict

FLAVOURS = ("keras", "tf_keras")

# What is wrong -> what the message must name.
MESSAGES = {
    "own train_step": "Own overrides train_step",
    "summed loss": "has reduction 'sum'",
    "synchronised BatchNorm": "'norm' is a synchronised BatchNorm",
    "synchronised BatchNorm, nested": "'deep' is a synchronised BatchNorm",
    "activity_regularizer": "'dense' has an activity_regularizer",
    "add_loss": "'adds' calls add_loss",
    "not compiled": "is not compiled: call model.compile",
    "no loss": "without a loss",
    "not a model": "returned Dense, not a compiled Keras model",
    "nothing": "returned NoneType, not a compiled Keras model",
    "unfed input": "no column feeds the model's input 'age': add data.inputs.age",
    "input too many": "data.inputs.age feeds no input of the model, which has: numbers",
    "text into numbers": "data.inputs.numbers brings text (column colour), and the model's input 'numbers' takes "
    "float32: make it keras.Input((), dtype='string') before a StringLookup",
    "numbers into text": "data.inputs.numbers brings int64 (column item), and the model's input 'numbers' takes text",
    "three into four": "data.inputs.numbers brings rows of shape (3,) (columns a, b, c), and the model's input "
    "'numbers' takes rows of shape (4,): make it keras.Input((3,)), or",
    "one into four": "brings rows of shape () (column age), and the model's input 'numbers' takes rows of shape (4,)",
    "a flat image": "give data.inputs.numbers.shape: [2, 2, 1]",
    "a text target": "data.targets.label brings text (column colour), which no loss of Keras takes",
    "LossScaleOptimizer": "LossScaleOptimizer",
    "mixed_float16": "mixed_float16",
    "own fit": "Fits overrides fit, which sparktf never calls",
    "an optimizer with an end of its own": "Ends overrides finalize_variable_values, which sparktf never calls",
    "frozen after compile": "trainable of layer 'dense' was True when the model was compiled, and is False now: call",
    "nothing to train": "it has no trainable weight",
    "averages that overwrite": "ema_overwrite_frequency is not supported",
    "loss of one number": "loss mean_of_all gives one number for a batch",
    "masked loss": "an output carries a mask",
    "rows for RMSprop": "layer 'of_numbers' is a ShardedEmbedding, whose rows RMSprop does not update one by one: use "
    "SGD, Adagrad, Adam or AdamW",
    "rows clipped by shard": "'of_numbers' is a ShardedEmbedding, and clipnorm of SGD clips each shard by itself: use",
    "rows that decay": "and weight_decay of Adam takes the whole table in each update: exclude it by",
    "rows averaged": "and use_ema of Adagrad averages the whole table in each update",
}
ONLY_KERAS = {
    "Dice": "loss dice gives one number for a batch",
    "Circle": "loss circle compares the rows of a batch",
    "MultiOptimizer": "MultiOptimizer is not supported: use one optimizer",
}
ACCEPTED = [
    "accepted",
    "an image without channels",
    "whole numbers into floats",
    "one value as a vector",
    "a vector as one value",
    "texts",
    "rows that alone do not decay",
    "known words alone",
    "a FeatureSpace",
    "images",
    "lines of CSV",
]
"""The last four take no row that is made up."""
OF_FEEDS = [
    "input too many",
    "text into numbers",
    "three into four",
    "one into four",
    "a flat image",
    "a text target",
    "an image without channels",
    "whole numbers into floats",
    "one value as a vector",
    "a vector as one value",
    "texts",
    "images",
    "lines of CSV",
]
"""What is fed into one and the same input, whichever Keras has made it."""


def alternating(cases: list[tuple[str, str]]) -> list[Any]:
    """Returns flavours and what is wrong; of `OF_FEEDS`, `make test` has each in one flavour, and those in turns."""
    told = [(FLAVOURS[place % 2], what) for place, what in enumerate(OF_FEEDS)]
    return only(*(case for case in cases if case[1] not in OF_FEEDS or case in told), of=cases)


CASES = alternating(
    [*((flavour, what) for flavour in FLAVOURS for what in MESSAGES), *(("keras", what) for what in ONLY_KERAS)]
)


@pytest.mark.parametrize(("flavour", "what"), CASES)
def test_a_model_that_cannot_be_exact_is_refused(
    flavour: str, what: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "anything", params={"flavour": flavour}, data=lake.NUMBERS_TO_LABEL)
    ((kind, verdict, message),) = elsewhere.submit(refused.answers, config, what).result()
    assert (kind, verdict) == ("ModelContractError", Verdict.REFUSED), message
    assert message.startswith("model: ")
    assert {**MESSAGES, **ONLY_KERAS}[what] in message


@pytest.mark.parametrize(("flavour", "what"), alternating([*product(FLAVOURS, ACCEPTED)]))
def test_a_model_without_a_fault_is_accepted(
    flavour: str, what: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "anything", params={"flavour": flavour}, data=lake.NUMBERS_TO_LABEL)
    assert elsewhere.submit(refused.answers, config, what).result() == {("", 0, "accepted")}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_model_that_tells_fewer_classes_apart_than_there_are_is_refused_with_both_numbers(
    flavour: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    said = (
        "model: its output tells 3 classes apart, and data.targets.label (column label) has 4: give its last layer 4 "
        "units, and a loss for as many"
    )
    for classes, answer in ((4, ("ModelContractError", Verdict.REFUSED, said)), (3, ("", 0, "accepted"))):
        train, params = {"classes": classes}, {"flavour": flavour}
        config = lake.job(tmp_path, "anything", params=params, data=lake.NUMBERS_TO_LABEL, train=train)
        assert elsewhere.submit(refused.answers, config, "accepted").result() == {answer}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_error_of_a_subclassed_models_first_call_says_what_it_was_given(
    flavour: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "anything", params={"flavour": flavour}, data=lake.NUMBERS_TO_LABEL)
    for kind, verdict, message in elsewhere.submit(refused.answers, config, "a call that fails").result():
        assert (kind, verdict) == ("ValueError", Verdict.MODEL_FAILED)
        assert "seven are wanted" in message
        assert "it was given input:numbers float32 [batch, 4], target:label int64 [batch]" in message


def test_an_evaluator_without_a_model_or_rows_to_evaluate_is_refused_with_the_setting(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "loop", params={"flavour": "keras"}, data=lake.NUMBERS_TO_LABEL)
    said = elsewhere.submit(refused.of_evaluator, config, 5).result()
    assert said.startswith("ModelContractError: cluster.evaluator: true evaluates a model from build(params, assets)")
    config = lake.job(tmp_path, "everything", params={"flavour": "keras"}, data=lake.NUMBERS_TO_LABEL)
    said = elsewhere.submit(refused.of_evaluator, config, 0).result()
    assert said.startswith("PreflightError: cluster.evaluator: true needs validation rows")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("trainer.zoo:refused_step", r"Own overrides train_step, .*train\(node\)"),
        ("trainer.zoo:everythink", r"module 'trainer.zoo' has no function 'everythink' \(it has: .*everything"),
        ("trainer.zoologist:build", r"module 'trainer.zoologist' is not found"),
    ],
)
def test_a_run_ends_with_the_refusal(model: str, message: str, tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [40, 40])
    good = lake.job(tmp_path, "anything", workers=2, params={"flavour": "keras"}, data=lake.NUMBERS_TO_LABEL)
    with pytest.raises(ModelContractError, match=message) as refusal:
        gang.train(good.model_copy(update={"model": model}))
    result = refusal.value.result
    assert result.verdict is Verdict.REFUSED
    assert len(result.attempts) == 1
    assert result.steps == 0


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_compiled_model_in_the_place_of_the_function_that_makes_it_is_refused_at_once(
    flavour: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    said = elsewhere.submit(refused.at_the_door, flavour, str(tmp_path)).result()
    rest = "give def build(params, assets): ...; return model"
    start = "must be a function that builds and returns the compiled model in each training process, not"
    assert said == [
        f"ConfigError: model {start} a Functional: {rest}",
        f"ConfigError: build {start} the class Model: {rest}",
        f"ConfigError: model {start} a Functional: {rest}",
    ]


def test_a_loss_that_is_scaled_has_the_gradient_that_is_not(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(refused.scaled_update).result() < 1e-6


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_layer_may_keep_a_tensor_from_when_it_is_built(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(refused.keeps_tensors, flavour).result() == pytest.approx(1.0986, abs=1e-3)  # log(3)
