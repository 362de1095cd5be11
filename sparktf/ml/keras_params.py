"""The Params of `KerasEstimator` and `KerasModel`, by the names that Spark ML has for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
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

from sparktf.driver.code.function_module import check_function


def _json_able(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a dict, not {type(value).__name__}")
    found: dict[str, Any] = json.loads(json.dumps(dict(value), default=_plain))
    return found


def _plain(value: Any) -> Any:
    """Converts a NumPy number, as in grids, to a Python one."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"must hold what JSON has, not {type(value).__name__}")


def _positive(name: str) -> Callable[[Any], int]:
    def positive(value: Any) -> int:
        number = TypeConverters.toInt(value)
        if number < 1:
            raise ValueError(f'Invalid param value given for param "{name}". It must be 1 or more, not {number}')
        return number

    return positive


def _function_or_name(value: Any) -> Any:
    if not callable(value):
        return TypeConverters.toString(value)
    check_function("model", value)
    return value


class ScoringParams(HasFeaturesCol, HasInputCols, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol):
    """Params of both: the columns read and written."""

    batchRows: Param[int] = Param(
        Params._dummy(),
        "batchRows",
        "rows that the model is called with at a time, at most, when it scores",
        _positive("batchRows"),
    )

    def __init__(self) -> None:
        super().__init__()
        # A probability and a raw prediction are made where their columns are named: an empty name is none.
        self._setDefault(featuresCol="features", probabilityCol="", rawPredictionCol="", batchRows=4096)

    def _set(self, **kwargs: Any) -> Self:
        """Sets Params; None clears one, where Spark would store None."""
        for name in [name for name, value in kwargs.items() if value is None]:
            self.clear(self.getParam(name))
            del kwargs[name]
        return super()._set(**kwargs)

    def getBatchRows(self) -> int:
        """Returns the value of batchRows."""
        return self.getOrDefault(self.batchRows)

    def setBatchRows(self, value: int) -> Any:
        """Sets batchRows."""
        return self._set(batchRows=value)

    def setFeaturesCol(self, value: str) -> Any:
        """Sets featuresCol."""
        return self._set(featuresCol=value)

    def setInputCols(self, value: Sequence[str] | None) -> Any:
        """Sets inputCols: columns of numbers that are packed into one vector, in place of featuresCol."""
        return self._set(inputCols=value)

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
    """Further Params of the estimator."""

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
    numWorkers: Param[int] = Param(Params._dummy(), "numWorkers", "workers that train", _positive("numWorkers"))
    batchSize: Param[int] = Param(
        Params._dummy(), "batchSize", "rows of an update, over all workers", _positive("batchSize")
    )
    epochs: Param[int] = Param(Params._dummy(), "epochs", "passes over the rows", _positive("epochs"))
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

    def getModel(self) -> Any:
        """Returns the value of model."""
        return self.getOrDefault(self.model)

    def setModel(self, value: Any) -> Any:
        """Sets model."""
        return self._set(model=value)

    def getModelParams(self) -> dict[str, Any]:
        """Returns the value of modelParams."""
        return self.getOrDefault(self.modelParams)

    def setModelParams(self, value: Mapping[str, Any]) -> Any:
        """Sets modelParams."""
        return self._set(modelParams=value)

    def getInputs(self) -> dict[str, Any]:
        """Returns the value of inputs."""
        return self.getOrDefault(self.inputs)

    def setInputs(self, value: Mapping[str, Any]) -> Any:
        """Sets inputs."""
        return self._set(inputs=value)

    def getInputName(self) -> str:
        """Returns the value of inputName."""
        return self.getOrDefault(self.inputName)

    def setInputName(self, value: str) -> Any:
        """Sets inputName."""
        return self._set(inputName=value)

    def getOutputName(self) -> str:
        """Returns the value of outputName."""
        return self.getOrDefault(self.outputName)

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

    def getNumWorkers(self) -> int:
        """Returns the value of numWorkers."""
        return self.getOrDefault(self.numWorkers)

    def setNumWorkers(self, value: int) -> Any:
        """Sets numWorkers."""
        return self._set(numWorkers=value)

    def getBatchSize(self) -> int:
        """Returns the value of batchSize."""
        return self.getOrDefault(self.batchSize)

    def setBatchSize(self, value: int) -> Any:
        """Sets batchSize."""
        return self._set(batchSize=value)

    def getEpochs(self) -> int:
        """Returns the value of epochs."""
        return self.getOrDefault(self.epochs)

    def setEpochs(self, value: int) -> Any:
        """Sets epochs."""
        return self._set(epochs=value)

    def getOutputPath(self) -> str:
        """Returns the value of outputPath."""
        return self.getOrDefault(self.outputPath)

    def setOutputPath(self, value: str) -> Any:
        """Sets outputPath."""
        return self._set(outputPath=value)

    def getConfig(self) -> dict[str, Any]:
        """Returns the value of config."""
        return self.getOrDefault(self.config)

    def setConfig(self, value: Mapping[str, Any]) -> Any:
        """Sets config."""
        return self._set(config=value)
