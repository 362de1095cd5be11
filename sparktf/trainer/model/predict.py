"""What a model predicts as it was trained, for rows that its node has read."""

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
    """Returns what a model predicts for some rows, as an evaluation would.

    Raises:
        ModelContractError: for the same rows, it predicts something else each time.
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

    # On the processor, where the exported model is loaded, too: devices of other kinds round differently.
    with tf.device("CPU:0"):
        function = tf.function(predict, autograph=False)
        first, again = as_arrays(function(rows)), as_arrays(function(rows))
    if (said := difference(first, again, about.tolerance)) is not None:
        raise ModelContractError(
            f"publish: the model predicts something else for the same rows each time ({said}), so that nobody can tell "
            "whether it is exported right: nothing in it may be random, or change, where training is False"
        )
    return Predictions(about, inputs, first)


def _as_served(spec: FeedSpec, columns: Columns) -> dict[str, Array]:
    """Returns the rows of the inputs as the signature `serving_default` takes them."""
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
    """Returns rows of zeros and empty texts; ragged ones have one value."""
    return {feature.key: _made_up(feature, rows) for feature in spec.inputs}


def _made_up(feature: Feature, rows: int) -> Column:
    shape = (rows,) if feature.ragged else (rows, *feature.shape)
    values: Any = Strings.blank(rows, shape[1:]) if feature.is_text else np.zeros(shape, feature.numpy_dtype)
    return Ragged(values, np.arange(rows + 1, dtype=np.int64)) if feature.ragged else values
