"""The Params of `KerasEstimator` and `KerasModel`, by the names that Spark ML has for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasInputCols,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasSeed,
    HasValidationIndicatorCol,
    HasWeightCol,
)


def _json_able(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a dict, not {type(value).__name__}")
    found: dict[str, Any] = json.loads(json.dumps(dict(value)))
    return found


def _function_or_name(value: Any) -> Any:
    return value if callable(value) else TypeConverters.toString(value)


class ScoringParams(HasFeaturesCol, HasInputCols, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol):
    """What both have: which columns go in, and which come out."""

    batchRows: Param[int] = Param(
        Params._dummy(),
        "batchRows",
        "rows that the model is called with at a time, at most, when it scores",
        TypeConverters.toInt,
    )

    def __init__(self) -> None:
        super().__init__()
        # A probability and a raw prediction are made where their columns are named: an empty name is none.
        self._setDefault(featuresCol="features", probabilityCol="", rawPredictionCol="", batchRows=4096)

    def getBatchRows(self) -> int:
        """Returns the value of batchRows."""
        return self.getOrDefault(self.batchRows)

    def setBatchRows(self, value: int) -> Any:
        """Sets batchRows."""
        return self._set(batchRows=value)

    def setFeaturesCol(self, value: str) -> Any:
        """Sets featuresCol."""
        return self._set(featuresCol=value)

    def setInputCols(self, value: Sequence[str]) -> Any:
        """Sets inputCols: columns of numbers that are packed into one vector, in place of featuresCol."""
        return self._set(inputCols=list(value))

    def setPredictionCol(self, value: str) -> Any:
        """Sets predictionCol."""
        return self._set(predictionCol=value)

    def setProbabilityCol(self, value: str) -> Any:
        """Sets probabilityCol; with it, the model is a classifier."""
        return self._set(probabilityCol=value)

    def setRawPredictionCol(self, value: str) -> Any:
        """Sets rawPredictionCol; with it, the model is a classifier."""
        return self._set(rawPredictionCol=value)


class FittingParams(ScoringParams, HasLabelCol, HasWeightCol, HasValidationIndicatorCol, HasSeed):
    """What the estimator has besides."""

    model: Param[Any] = Param(
        Params._dummy(),
        "model",
        "function that returns the compiled Keras model, or its name as module:function",
        _function_or_name,
    )
    modelParams: Param[dict[str, Any]] = Param(
        Params._dummy(),
        "modelParams",
        "handed to the model's function, with num_features, the length of a row's features",
        _json_able,
    )
    inputs: Param[dict[str, Any]] = Param(
        Params._dummy(),
        "inputs",
        "several inputs of the model and their columns, as data.inputs of the configuration has them; in place of "
        "featuresCol and inputCols",
        _json_able,
    )
    inputName: Param[str] = Param(
        Params._dummy(), "inputName", "name of the model's only input", TypeConverters.toString
    )
    outputName: Param[str] = Param(
        Params._dummy(), "outputName", "name of the model's only output", TypeConverters.toString
    )
    numWorkers: Param[int] = Param(Params._dummy(), "numWorkers", "workers that train", TypeConverters.toInt)
    batchSize: Param[int] = Param(
        Params._dummy(), "batchSize", "rows of an update, over all workers", TypeConverters.toInt
    )
    epochs: Param[int] = Param(Params._dummy(), "epochs", "passes over the rows", TypeConverters.toInt)
    outputPath: Param[str] = Param(
        Params._dummy(),
        "outputPath",
        "folder that all executors reach, for runs and models; on one machine, a temporary one by default",
        TypeConverters.toString,
    )
    config: Param[dict[str, Any]] = Param(
        Params._dummy(),
        "config",
        "further sections of the configuration, such as {'train': {'early_stopping': {'patience': 3}}}",
        _json_able,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            labelCol="label",
            modelParams={},
            inputName="features",
            outputName="label",
            numWorkers=1,
            batchSize=32,
            epochs=1,
            seed=0,
            config={},
        )

    def setModel(self, value: Any) -> Any:
        """Sets model."""
        return self._set(model=value)

    def setModelParams(self, value: Mapping[str, Any]) -> Any:
        """Sets modelParams."""
        return self._set(modelParams=value)

    def setInputs(self, value: Mapping[str, Any]) -> Any:
        """Sets inputs."""
        return self._set(inputs=value)

    def setInputName(self, value: str) -> Any:
        """Sets inputName."""
        return self._set(inputName=value)

    def setOutputName(self, value: str) -> Any:
        """Sets outputName."""
        return self._set(outputName=value)

    def setLabelCol(self, value: str) -> Any:
        """Sets labelCol."""
        return self._set(labelCol=value)

    def setWeightCol(self, value: str) -> Any:
        """Sets weightCol."""
        return self._set(weightCol=value)

    def setValidationIndicatorCol(self, value: str) -> Any:
        """Sets validationIndicatorCol: rows in which it is true are held out, and evaluated after each epoch."""
        return self._set(validationIndicatorCol=value)

    def setSeed(self, value: int) -> Any:
        """Sets seed."""
        return self._set(seed=value)

    def setNumWorkers(self, value: int) -> Any:
        """Sets numWorkers."""
        return self._set(numWorkers=value)

    def setBatchSize(self, value: int) -> Any:
        """Sets batchSize."""
        return self._set(batchSize=value)

    def setEpochs(self, value: int) -> Any:
        """Sets epochs."""
        return self._set(epochs=value)

    def setOutputPath(self, value: str) -> Any:
        """Sets outputPath."""
        return self._set(outputPath=value)

    def setConfig(self, value: Mapping[str, Any]) -> Any:
        """Sets config."""
        return self._set(config=value)
