"""Keras models as classifiers of Spark ML."""

from __future__ import annotations

from pyspark.ml.classification import ProbabilisticClassificationModel, ProbabilisticClassifier
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import DenseVector
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from sparktf.config.job import JobConfig
from sparktf.errors import ConfigError, ModelContractError
from sparktf.ml.class_scores import ClassScores, class_scores
from sparktf.ml.estimator import FittingStage
from sparktf.ml.fitted import OUTPUT
from sparktf.ml.keras_params import ClassParams
from sparktf.ml.labels import class_count
from sparktf.ml.predictor import Features, PredictorModel, of_output
from sparktf.predict.loaded import LoadedModel


class KerasClassificationModel(PredictorModel, ClassParams, ProbabilisticClassificationModel):  # type: ignore[misc]
    """The model of `KerasClassifier.fit`, with the columns of Spark's own classifiers.

    Its output is one value for two classes, of the second one, or one for each class; probabilities or logits.
    """

    @property
    def numClasses(self) -> int:
        """The number of classes.

        Raises:
            ModelContractError: the model is no classifier.
        """
        return _classes(self._description())

    def predict(self, value: Features) -> float:
        """Returns the class of a vector; for many of them, `transform` is much faster."""
        prediction = self._scores_of_output().prediction
        return float(of_output(self._output(value), prediction))

    def predictRaw(self, value: Features) -> DenseVector:
        """Returns the logits [classes] of a vector."""
        return self._vector(value, self._scores_of_output().raw)

    def predictProbability(self, value: Features) -> DenseVector:
        """Returns the probabilities [classes] of a vector."""
        return self._vector(value, self._scores_of_output().probability)

    def _vector(self, value: Features, vector: Column) -> DenseVector:
        return DenseVector(of_output(self._output(value), vector_to_array(vector)))

    def _scores_of_output(self) -> ClassScores:
        return self._scores(sql.col(OUTPUT), self._description())

    def _columns(self, output: Column, model: LoadedModel) -> dict[str, Column]:
        scores = self._scores(output, model)
        named = {
            self.getRawPredictionCol(): scores.raw,
            self.getProbabilityCol(): scores.probability,
            self.getPredictionCol(): scores.prediction,
        }
        return {name: column for name, column in named.items() if name}

    def _scores(self, output: Column, model: LoadedModel) -> ClassScores:
        classes = _classes(model)
        thresholds = self.getThresholds() if self.isSet("thresholds") else []
        check_thresholds(thresholds, classes)
        from_logits = self.getFromLogits() if self.isSet("fromLogits") else model.feed.from_logits
        if from_logits is None:
            raise ConfigError(
                "fromLogits is not set, and neither the model's last layer nor its loss says whether its output is "
                "logits or probabilities: model.setFromLogits(True) or (False)"
            )
        is_single = model.feed.outputs[0].is_single
        return class_scores(output, classes, is_single=is_single, from_logits=from_logits, thresholds=thresholds)


class KerasClassifier(FittingStage[KerasClassificationModel], ClassParams, ProbabilisticClassifier):  # type: ignore[misc]
    """Trains a Keras model as a classifier: `KerasClassifier(model="churn:build", labelCol="churned")`.

    Labels are classes: 0, 1, 2 and so on. The model's function is told their number, as `params["num_classes"]`; its
    output is one value for two classes, or one for each class. All else is as for `KerasEstimator`.
    """

    _fits = KerasClassificationModel

    def _given(self, dataset: DataFrame) -> dict[str, int]:
        classes = class_count(dataset, *self._labels(dataset))
        wanted = self.getModelParams().get("num_classes", classes)
        if wanted < classes:
            raise ConfigError(
                f"modelParams: num_classes is {wanted}, and the labels are of {classes} classes: leave it out"
            )
        check_thresholds(self.getThresholds() if self.isSet("thresholds") else [], wanted)
        return {"num_classes": classes}

    def _check_fitted(self, model: KerasClassificationModel, config: JobConfig) -> None:
        classes = int(config.params["num_classes"])
        if model.numClasses < classes:
            raise ModelContractError(
                f"the model tells {model.numClasses} classes apart, and the labels ({self.getLabelCol()}) are of "
                f"{classes}: give its last layer params['num_classes'] units"
            )


def check_thresholds(thresholds: list[float], classes: int) -> None:
    """Checks thresholds, of which there may be none.

    Raises:
        ConfigError: there is not one for each class, or one is negative, or several are 0.
    """
    if thresholds and len(thresholds) != classes:
        raise ConfigError(f"thresholds has {len(thresholds)} values, and there are {classes} classes: give one of each")
    if any(not value >= 0 for value in thresholds) or thresholds.count(0) > 1:
        raise ConfigError(f"thresholds is {thresholds}: give numbers above 0, of which one may be 0")


def _classes(model: LoadedModel) -> int:
    output = model.feed.outputs[0]
    if output.is_single:
        return 2
    if len(output.shape) == 1 and output.shape[0] is not None:
        return output.shape[0]
    raise ModelContractError(
        f"the model's output {output.name} has rows of shape {output.shape}: a classifier's are one value, or one for "
        "each class; KerasEstimator trains any model"
    )
