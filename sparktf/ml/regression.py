"""Keras models as regressors of Spark ML."""

from __future__ import annotations

from pyspark.ml.regression import RegressionModel, Regressor
from pyspark.sql import Column, DataFrame

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError
from sparktf.ml.class_scores import never_null
from sparktf.ml.estimator import FittingStage
from sparktf.ml.labels import check_numbers
from sparktf.ml.predictor import Features, PredictorModel
from sparktf.predict.loaded import LoadedModel


class KerasRegressionModel(PredictorModel, RegressionModel[Features]):  # type: ignore[misc]
    """The model of `KerasRegressor.fit`: predictionCol has its output, one number, as a double."""

    def predict(self, value: Features) -> float:
        """Returns the prediction for a vector; for many of them, `transform` is much faster."""
        self._check(self._description())
        return float(self._output(value))

    def _columns(self, output: Column, model: LoadedModel) -> dict[str, Column]:
        self._check(model)
        name = self.getPredictionCol()
        column = never_null(output.cast("double")).alias(name, metadata={"ml_attr": {}})
        return {name: column} if name else {}

    def _check(self, model: LoadedModel) -> None:
        output = model.feed.outputs[0]
        if not output.is_single:
            raise ModelContractError(
                f"the model's output {output.name} has rows of shape {output.shape}: a regressor's are one number; "
                "KerasEstimator trains any model"
            )


class KerasRegressor(FittingStage[KerasRegressionModel], Regressor[KerasRegressionModel]):  # type: ignore[misc]
    """Trains a Keras model as a regressor: `KerasRegressor(model="prices:build", labelCol="price")`.

    Its output is one number. All else is as for `KerasEstimator`.
    """

    _fits = KerasRegressionModel

    def _given(self, dataset: DataFrame) -> dict[str, int]:
        check_numbers(dataset, *self._labels(dataset))
        return {}

    def _check_fitted(self, model: KerasRegressionModel, config: JobConfig) -> None:
        model._check(model._description())
