"""Predictions of the trained model for rows that its node has read."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.feature import Feature, FeedSpec
from sparktf.feed.arrays.columns import Array, Column, Columns, Ragged, Strings
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.predictions import (
    ROW_SPLITS,
    About,
    Predictions,
    as_arrays,
    difference,
    named_outputs,
    tolerance,
)
from sparktf.trainer.model.variable_names import layers_of


def predictions_of(model: UserModel, columns: Columns) -> Predictions:
    """Returns the predictions for some rows, as in evaluation.

    Raises:
        ModelContractError: the predictions for the same rows differ from call to call.
    """
    about = About(
        flavour=model.flavour,
        inputs={feature.name: feature.ragged for feature in model.spec.inputs},
        output_names=tuple(getattr(model.model, "output_names", None) or ()),
        target_names=tuple(target.name for target in model.spec.targets),
        tolerance=tolerance(str(getattr(layer, "compute_dtype", "")) for layer in layers_of(model.model)),
    )
    inputs = _as_served(model.spec, columns)
    rows = {feature.key: _tensor(feature, inputs) for feature in model.spec.inputs}
    outputs = about.output_names or about.target_names

    def predict(rows: dict[str, Any]) -> dict[str, Any]:
        y = model.model(model.layout.x(rows), training=False)
        return named_outputs(y, outputs, about.target_names)

    # On the CPU, where the exported model is loaded, too: other devices round differently.
    with tf.device("CPU:0"):
        function = tf.function(predict, autograph=False)
        first, again = as_arrays(function(rows)), as_arrays(function(rows))
    if (said := difference(first, again, about.tolerance)) is not None:
        raise ModelContractError(
            f"publish: the model's predictions for the same rows differ from call to call ({said}), so that the export "
            "cannot be checked: make nothing in it random or stateful when training is False"
        )
    return Predictions(about, inputs, first)


def _as_served(spec: FeedSpec, columns: Columns) -> dict[str, Array]:
    """Returns the rows of the inputs in the form of the signature `serving_default`."""
    found: dict[str, Array] = {}
    for feature in spec.inputs:
        column = columns[feature.key]
        if isinstance(column, Ragged):
            column = column.compact()
            found[f"{feature.name}{ROW_SPLITS}"] = column.splits
            column = column.values
        found[feature.name] = column.to_numpy().astype("S") if isinstance(column, Strings) else column
    return found


def _tensor(feature: Feature, inputs: dict[str, Array]) -> Any:
    values = tf.constant(inputs[feature.name])
    if not feature.ragged:
        return values
    return tf.RaggedTensor.from_row_splits(values, inputs[f"{feature.name}{ROW_SPLITS}"])


def made_up_rows(spec: FeedSpec, rows: int) -> Columns:
    """Returns rows of zeros and empty strings; ragged ones have one value."""
    return {feature.key: _made_up(feature, rows) for feature in spec.inputs}


def _made_up(feature: Feature, rows: int) -> Column:
    shape = (rows,) if feature.ragged else (rows, *feature.shape)
    values: Any = Strings.blank(rows, shape[1:]) if feature.is_text else np.zeros(shape, feature.numpy_dtype)
    return Ragged(values, np.arange(rows + 1, dtype=np.int64)) if feature.ragged else values
