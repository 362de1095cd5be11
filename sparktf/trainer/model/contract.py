"""Compares a model's inputs and targets with the feed by name, dtype and shape, before training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.feature import TEXT, Feature, FeedSpec


def check_inputs(model: Any, spec: FeedSpec) -> None:
    """Checks that the feed fits every input; the inputs of a subclassed model are unknown.

    Keras itself converts between numeric dtypes, and adds or drops a last axis of one value.

    Raises:
        ModelContractError: names input and columns, and the remedy.
    """
    inputs = _inputs_of(model)
    fed = {feature.name: feature for feature in spec.inputs}
    if len(inputs) == 1 and len(fed) == 1:  # a single input is passed without a name
        pairs = [(next(iter(fed.values())), next(iter(inputs.values())))]
    else:
        _check_names(list(inputs), list(fed))
        pairs = [(fed[name], tensor) for name, tensor in inputs.items()]
    for feature, tensor in pairs:
        _check_input(feature, tensor)


def check_targets(model: Any, spec: FeedSpec, losses: Sequence[Any]) -> None:
    """Checks that every target is an output, and that the losses can take it.

    Raises:
        ModelContractError: names target and columns, and the remedy.
    """
    outputs = list(getattr(model, "output_names", None) or [])
    targets = [f.name for f in spec.targets]
    if len(targets) > 1 and outputs and set(targets) - set(outputs):
        extra = sorted(set(targets) - set(outputs))[0]
        raise ModelContractError(
            f"model: data.targets.{extra} is no output of the model, which has: {', '.join(outputs)}"
        )
    for target in spec.targets:
        if target.is_text and all(is_loss_of_keras(loss) for loss in losses):
            raise ModelContractError(
                f"model: data.targets.{target.name} brings text ({_columns(target)}), which no loss of Keras takes: "
                "name a column of numbers, such as the index of each class"
            )


def check_classes(y_pred: Any, target: Feature, classes: int) -> None:
    """Checks that a model's only output tells as many classes apart as its target has; one value tells two.

    Raises:
        ModelContractError: names both numbers.
    """
    outputs = tf.nest.flatten(y_pred)
    if len(outputs) > 1:
        return
    (output,) = outputs
    told = output.shape[-1] if output.shape.rank == 2 else None
    told = 2 if told == 1 or output.shape.rank == 1 else told
    if told is not None and told < classes:
        raise ModelContractError(
            f"model: its output tells {told} classes apart, and data.targets.{target.name} ({_columns(target)}) has "
            f"{classes}: give its last layer {classes} units, and a loss for as many"
        )


@contextmanager
def naming_tensors(spec: FeedSpec) -> Iterator[None]:
    """Adds the model's inputs as a note to an error of its code."""
    try:
        yield
    except Exception as error:
        tensors = ", ".join(f"{f.key} {f.dtype} {['batch', *f.shape]}".replace("'", "") for f in spec.features)
        error.add_note(f"it was given {tensors}")
        raise


def _inputs_of(model: Any) -> dict[str, Any]:
    """Returns the inputs by the names of a dict of them; none for a subclassed model."""
    for attribute in ("_inputs_struct", "_nested_inputs"):  # of Keras 3, of tf_keras
        structure = getattr(model, attribute, None)
        if isinstance(structure, dict):
            return dict(structure)
    tensors = list(getattr(model, "inputs", None) or [])
    names = getattr(model, "input_names", None) or [tensor.name for tensor in tensors]  # Keras 3 has none
    return dict(zip(names, tensors, strict=True)) if tensors else {}


def _check_names(inputs: list[str], fed: list[str]) -> None:
    if not inputs:
        return
    for name in inputs:
        if name not in fed:
            raise ModelContractError(f"model: no column feeds the model's input '{name}': add data.inputs.{name}")
    for name in fed:
        if name not in inputs:
            raise ModelContractError(
                f"model: data.inputs.{name} feeds no input of the model, which has: {', '.join(inputs)}"
            )


def _check_input(feature: Feature, tensor: Any) -> None:
    dtype, shape = tf.as_dtype(tensor.dtype).name, tf.TensorShape(tensor.shape)
    given = f"the mask '{feature.name}'" if feature.is_mask else f"data.inputs.{feature.name}"
    brings = f"model: {given} brings {{}} ({_columns(feature)}), and the model's input '{tensor.name}' takes {{}}: {{}}"
    if feature.is_text and dtype != TEXT:
        mend = f"make it keras.Input({feature.shape}, dtype='string') before a StringLookup, or name columns of numbers"
        raise ModelContractError(brings.format("text", dtype, mend))
    if dtype == TEXT and not feature.is_text:
        mend = f"make it keras.Input({feature.shape}, dtype='{feature.dtype}'), or name columns of text"
        raise ModelContractError(brings.format(feature.dtype, "text", mend))
    if feature.ragged or shape.rank is None:
        return
    takes = tuple(shape.as_list()[1:])
    if not _fits(feature.shape, takes):
        raise ModelContractError(
            brings.format(f"rows of shape {feature.shape}", f"rows of shape {takes}", _mend(feature, takes))
        )


def _fits(fed: tuple[int, ...], takes: tuple[int | None, ...]) -> bool:
    """Whether Keras accepts rows of a shape: it adds or drops a last axis of one value."""
    shapes = [fed, (*fed, 1), *([fed[:-1]] if fed[-1:] == (1,) else [])]
    return any(
        len(shape) == len(takes) and all(want in (None, have) for have, want in zip(shape, takes, strict=True))
        for shape in shapes
    )


def _mend(feature: Feature, takes: tuple[int | None, ...]) -> str:
    known = [n for n in takes if n is not None]
    if len(feature.columns) == 1 and len(known) == len(takes) and math.prod(known) == feature.places > 1:
        return f"give data.inputs.{feature.name}.shape: {known}"
    return f"make it keras.Input({feature.shape}), or change the columns"


def _columns(feature: Feature) -> str:
    named = ", ".join(feature.columns[:4]) + (", ..." if len(feature.columns) > 4 else "")
    return f"column{'s' * (len(feature.columns) > 1)} {named}"


def is_loss_of_keras(loss: Any) -> bool:
    """Whether a loss is one of Keras's own, given by name or as an object."""
    function = getattr(loss, "fn", loss)  # a function wrapped by Keras
    module = getattr(function, "__module__", None) or type(function).__module__
    return isinstance(loss, str) or module.partition(".")[0] in ("keras", "tf_keras")
