"""The common part of the models of `KerasClassifier` and `KerasRegressor`, by the names of Spark's own models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.ml.linalg import Vector
from pyspark.ml.param.shared import HasLabelCol
from pyspark.sql import Column, SparkSession

from sparktf.errors import BadValueError, ConfigError
from sparktf.feature import Feature
from sparktf.ml.fitted import OUTPUT, FittedModel
from sparktf.ml.keras_params import setter
from sparktf.ml.summary import KerasTrainingSummary
from sparktf.predict.loaded import LoadedModel, load_model
from sparktf.predict.single_rows import SingleRows

Features = Vector | Sequence[float] | np.ndarray[Any, Any]


class PredictorModel(FittedModel):
    """A model with the summary of its training, which predicts for single vectors, too."""

    setLabelCol = setter(HasLabelCol.labelCol)

    def __init__(self, path: str = "") -> None:
        """Uses an exported model in its place."""
        super().__init__(path)
        self._described: tuple[SparkSession, str, LoadedModel] | None = None
        self._single: tuple[LoadedModel, SingleRows] | None = None
        self._summary: KerasTrainingSummary | None = None

    @property
    def hasSummary(self) -> bool:
        """Whether it was fitted, and not loaded."""
        return self.result is not None

    @property
    def summary(self) -> KerasTrainingSummary:
        """The summary of its training, with the history of each epoch.

        Raises:
            RuntimeError: it was loaded.
            StorageError: the run's files cannot be read.
        """
        if self.result is None:
            raise RuntimeError(f"this {type(self).__name__} was loaded, and has no summary: a fitted one has")
        if self._summary is None:
            self._summary = KerasTrainingSummary(self.result)
        return self._summary

    @property
    def numFeatures(self) -> int:
        """The length of a row's features; -1 if they are not all numbers, or lists of any length."""
        inputs = _inputs(self._description())
        is_known = all(feature.is_array for feature in inputs)
        return sum(feature.places for feature in inputs) if is_known else -1

    def _output(self, value: Features) -> Any:
        """Returns the model's output for one vector, a number or a list: no Spark job computes it.

        Raises:
            BadValueError: the vector has another length.
            ConfigError: the model has several inputs.
        """
        model = self._description()
        numbers = np.asarray(value.toArray() if isinstance(value, Vector) else value, np.float64)
        read, columns = as_columns(_inputs(model), numbers)
        if self._single is None or self._single[0] is not model:
            self._single = (model, SingleRows(model.reading(read), tuple(columns)))
        return self._single[1].score(columns)

    def _description(self) -> LoadedModel:
        """Returns the exported model in the session of now."""
        spark = SparkSession.builder.getOrCreate()
        if self._described is None or self._described[:2] != (spark, self.path):
            self._described = (spark, self.path, load_model(spark, self.path))
        return self._described[2]


def _inputs(model: LoadedModel) -> list[Feature]:
    return [feature for feature in model.feed.spec.features if not feature.is_mask]


def as_columns(inputs: Sequence[Feature], numbers: np.ndarray[Any, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns the model's columns -> those of a row made of a vector [features], and the values of the latter.

    Raises:
        BadValueError: the vector has another length.
        ConfigError: the inputs are not one vector.
    """
    names = ", ".join(feature.name for feature in inputs)
    if len(inputs) > 1:
        raise ConfigError(f"the model has several inputs ({names}), which one vector cannot be: use transform")
    (feature,) = inputs
    if not feature.is_array:
        raise ConfigError(f"the model's input {names} is no vector of numbers: use transform")
    if numbers.shape != (feature.places,):
        raise BadValueError(
            f"the vector has shape {numbers.shape}, and the model takes vectors of {feature.places} features"
        )
    kind = np.int64 if feature.dtype.startswith(("int", "uint")) else np.float64
    values: list[Any] = numbers.astype(kind).tolist()
    if len(feature.columns) == 1 and feature.shape:
        return {feature.columns[0]: "c0"}, {"c0": values}
    if len(feature.columns) != len(values):
        raise ConfigError(f"the model's input {names} is packed of lists, which one vector cannot be: use transform")
    made = [f"c{i}" for i in range(len(values))]
    return dict(zip(feature.columns, made, strict=True)), dict(zip(made, values, strict=True))


def of_output(output: Any, column: Column) -> Any:
    """Returns a column made of `OUTPUT` for one output: of a table of constants, which Spark computes without a job."""
    value = f"array({', '.join(map(_literal, output))})" if isinstance(output, list) else _literal(output)
    rows = SparkSession.builder.getOrCreate().sql(f"SELECT * FROM VALUES ({value}) AS one({OUTPUT})")
    ((found,),) = rows.select(column).collect()
    return found


def _literal(number: float) -> str:
    return f"double('{float(number)!r}')"
