"""The Params of the stages, by the names that Spark ML has for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

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
    HasThresholds,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from sparktf.driver.code.function_module import check_function

_OF_XGBOOST = {"features_cols": "inputcols"}
"""Its Param -> ours, plainly spelt, where that is another word."""

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Callable[..., Any])


def _json_able(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a dict, not {type(value).__name__}")
    found: dict[str, Any] = json.loads(json.dumps(dict(value), default=_plain))
    return found


def _plain(value: Any) -> Any:
    """Converts a NumPy number, as in grids, to a Python one."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"must hold JSON values, not {type(value).__name__}")


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


def called(name: str, params: Iterable[str]) -> str:
    """Returns the name here of a Param that others spell in another way, as xgboost.spark does; "" for none."""
    spelt = {_plainly(param): param for param in params}
    return spelt.get(_OF_XGBOOST.get(name, _plainly(name)), "")


def _plainly(name: str) -> str:
    return name.replace("_", "").lower()


def getter(param: Param[_T]) -> Callable[[Any], _T]:
    """Returns the method that reads a Param, such as `getEpochs`."""

    def get(self: Any) -> _T:
        found: _T = self.getOrDefault(param.name)
        return found

    return _named(get, "get", "Returns", param)


def setter(param: Param[_T]) -> Callable[[Any, _T | None], Any]:
    """Returns the method that sets a Param, such as `setEpochs`, and returns its stage."""

    def set(self: Any, value: _T | None) -> Any:
        return self._set(**{param.name: value})

    return _named(set, "set", "Sets", param)


def _named(method: _M, begin: str, does: str, param: Param[Any]) -> _M:
    method.__name__ = f"{begin}{param.name[0].upper()}{param.name[1:]}"
    method.__doc__ = f"{does} {param.name}: {param.doc}"
    return method


class ScoringParams(HasFeaturesCol, HasInputCols, HasPredictionCol):
    """Params of all stages: the columns read, and the prediction."""

    batchRows: Param[int] = Param(
        Params._dummy(),
        "batchRows",
        "rows that the model is called with at a time, at most, when it scores",
        _positive("batchRows"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(featuresCol="features", batchRows=4096)

    def _set(self, **kwargs: Any) -> Self:
        """Sets Params; None clears one, where Spark would store None."""
        for name in [name for name, value in kwargs.items() if value is None]:
            self.clear(self.getParam(name))
            del kwargs[name]
        return super()._set(**kwargs)

    getBatchRows = getter(batchRows)
    setBatchRows = setter(batchRows)
    setFeaturesCol = setter(HasFeaturesCol.featuresCol)
    setInputCols = setter(HasInputCols.inputCols)
    setPredictionCol = setter(HasPredictionCol.predictionCol)


class VectorParams(HasProbabilityCol, HasRawPredictionCol):
    """Params of `KerasEstimator` and its model: the vectors, which are made where their columns are named."""

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(probabilityCol="", rawPredictionCol="")

    setProbabilityCol = setter(HasProbabilityCol.probabilityCol)
    setRawPredictionCol = setter(HasRawPredictionCol.rawPredictionCol)


class ClassParams(HasThresholds):
    """Params of `KerasClassifier` and its model, besides those of Spark's own classifiers."""

    fromLogits: Param[bool] = Param(
        Params._dummy(),
        "fromLogits",
        "whether the model's output is logits, and not probabilities; by default as its last layer and its loss say",
        TypeConverters.toBoolean,
    )

    getFromLogits = getter(fromLogits)
    setFromLogits = setter(fromLogits)
    setThresholds = setter(HasThresholds.thresholds)


class FittingParams(HasLabelCol, ScoringParams, HasWeightCol, HasValidationIndicatorCol, HasSeed):
    """Further Params of the estimators."""

    model: Param[Any] = Param(
        Params._dummy(),
        "model",
        "function that returns the compiled Keras model, or its name as module:function",
        _function_or_name,
    )
    modelParams: Param[dict[str, Any]] = Param(
        Params._dummy(),
        "modelParams",
        "handed to the model's function, with num_features, the length of a row's features, and num_classes, if it is "
        "a classifier's",
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

    getModel = getter(model)
    setModel = setter(model)
    getModelParams = getter(modelParams)
    setModelParams = setter(modelParams)
    getInputs = getter(inputs)
    setInputs = setter(inputs)
    getInputName = getter(inputName)
    setInputName = setter(inputName)
    getOutputName = getter(outputName)
    setOutputName = setter(outputName)
    setLabelCol = setter(HasLabelCol.labelCol)
    setWeightCol = setter(HasWeightCol.weightCol)
    setValidationIndicatorCol = setter(HasValidationIndicatorCol.validationIndicatorCol)
    setSeed = setter(HasSeed.seed)
    getNumWorkers = getter(numWorkers)
    setNumWorkers = setter(numWorkers)
    getBatchSize = getter(batchSize)
    setBatchSize = setter(batchSize)
    getEpochs = getter(epochs)
    setEpochs = setter(epochs)
    getOutputPath = getter(outputPath)
    setOutputPath = setter(outputPath)
    getConfig = getter(config)
    setConfig = setter(config)
