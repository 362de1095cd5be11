"""The Params of `KerasEstimator` and `KerasModel`, by the names that Spark ML has for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
    HasValidationIndicatorCol,
    HasWeightCol,
)

from sparktf.driver.code.function_module import check_function

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


def _getter(param: Param[_T]) -> Callable[[Any], _T]:
    """Returns the method that reads a Param, such as `getEpochs`."""

    def get(self: Any) -> _T:
        found: _T = self.getOrDefault(param.name)
        return found

    return _named(get, "get", "Returns", param)


def _setter(param: Param[_T]) -> Callable[[Any, _T | None], Any]:
    """Returns the method that sets a Param, such as `setEpochs`, and returns its stage."""

    def set(self: Any, value: _T | None) -> Any:
        return self._set(**{param.name: value})

    return _named(set, "set", "Sets", param)


def _named(method: _M, begin: str, does: str, param: Param[Any]) -> _M:
    method.__name__ = f"{begin}{param.name[0].upper()}{param.name[1:]}"
    method.__doc__ = f"{does} {param.name}: {param.doc}"
    return method


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

    getBatchRows = _getter(batchRows)
    setBatchRows = _setter(batchRows)
    setFeaturesCol = _setter(HasFeaturesCol.featuresCol)
    setInputCols = _setter(HasInputCols.inputCols)
    setPredictionCol = _setter(HasPredictionCol.predictionCol)
    setProbabilityCol = _setter(HasProbabilityCol.probabilityCol)
    setRawPredictionCol = _setter(HasRawPredictionCol.rawPredictionCol)


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

    getModel = _getter(model)
    setModel = _setter(model)
    getModelParams = _getter(modelParams)
    setModelParams = _setter(modelParams)
    getInputs = _getter(inputs)
    setInputs = _setter(inputs)
    getInputName = _getter(inputName)
    setInputName = _setter(inputName)
    getOutputName = _getter(outputName)
    setOutputName = _setter(outputName)
    setLabelCol = _setter(HasLabelCol.labelCol)
    setWeightCol = _setter(HasWeightCol.weightCol)
    setValidationIndicatorCol = _setter(HasValidationIndicatorCol.validationIndicatorCol)
    setSeed = _setter(HasSeed.seed)
    getNumWorkers = _getter(numWorkers)
    setNumWorkers = _setter(numWorkers)
    getBatchSize = _getter(batchSize)
    setBatchSize = _setter(batchSize)
    getEpochs = _getter(epochs)
    setEpochs = _setter(epochs)
    getOutputPath = _getter(outputPath)
    setOutputPath = _setter(outputPath)
    getConfig = _getter(config)
    setConfig = _setter(config)
