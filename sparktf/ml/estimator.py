"""Estimators of Spark ML that train a Keras model on the executors of their session."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.param import Param
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable, MLWriter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from sparktf.api.cluster import Cluster
from sparktf.api.program import functions_folder, temporary_output
from sparktf.config.job import JobConfig
from sparktf.driver.code.function_module import name_functions
from sparktf.errors import ColumnError, ConfigError, EmptySourceError
from sparktf.ml.fitted import FittedModel, KerasModel
from sparktf.ml.keras_params import FittingParams, VectorParams, called
from sparktf.predict.loaded import quoted

ParamMap = dict[Param[Any], Any]
F = TypeVar("F", bound=FittedModel)

_ONE_AT_A_TIME = threading.Lock()
"""Taken by each fit of the process in turn: fits in parallel would wait for each other's nodes."""


class FittingStage(Estimator[F], FittingParams, DefaultParamsReadable[Any], DefaultParamsWritable, Generic[F]):
    """An estimator; each class of them says what its models are, and what they ask of labels."""

    _fits: ClassVar[type[FittedModel]]

    @keyword_only
    def __init__(self, **params: Any) -> None:
        """Takes Params by their names."""
        super().__init__()
        self._cluster: Cluster | None = None
        self.setParams(**params)

    @keyword_only
    def setParams(self, **params: Any) -> Self:
        """Sets Params by their names.

        Raises:
            TypeError: there is no Param of a name, or a value is of another type than its Param.
            ValueError: a number is too small.
        """
        for name in params:
            if not self.hasParam(name):
                names = [param.name for param in self.params]
                known = called(name, names)
                mend = f"it is called {known}" if known else f"name one of {', '.join(names)}"
                raise TypeError(f"there is no Param {name!r}: {mend}")
        return self._set(**params)

    def on(self, cluster: Cluster) -> Self:
        """Has its fits, and those of its copies, train on the nodes that a cluster holds.

        Copies are what a CrossValidator fits, also in a Pipeline. The cluster is not closed.
        """
        self._cluster = cluster
        return self

    def _fit(self, dataset: DataFrame) -> F:
        [(_, model)] = self.fitMultiple(dataset, [{}])
        return model

    def fitMultiple(self, dataset: DataFrame, paramMaps: Sequence[ParamMap]) -> Iterator[tuple[int, F]]:
        """Returns models in the order of `paramMaps`; fits with the same number of workers share a reservation."""
        return _Fits(self.copy(), dataset, paramMaps)

    def _fitted(self, cluster: Cluster, config: JobConfig, dataset: DataFrame) -> F:
        run_id = f"{self.uid}-{uuid.uuid4().hex[:8]}"
        result = cluster.train(config, dataset.select(*self._used(dataset)), run_id=run_id)
        # Of the estimator's uid, as all models of Spark are: so maps of the estimator's Params are the model's as well.
        model: F = self._copyValues(self._fits(str(result.model))._resetUid(self.uid))  # type: ignore[assignment]
        model.result = result
        if self.isSet("inputs"):
            for name in ("featuresCol", "inputCols"):
                model.clear(model.getParam(name))
        self._check_fitted(model, config)
        return model.keep(dataset.sparkSession)

    # ---- what classes of estimators differ in ----

    def _given(self, dataset: DataFrame) -> dict[str, int]:
        """Checks the labels, and returns what the model's function is told of them."""
        return {}

    def _check_fitted(self, model: F, config: JobConfig) -> None:
        """Checks that a trained model is one of this estimator's."""

    def _labels(self, dataset: DataFrame) -> tuple[str, str]:
        """Returns the columns of labels and of weights, "" for none, once they are known to be there."""
        label, weight = self.getLabelCol(), self.getWeightCol() if self._names("weightCol") else ""
        self._sources(dataset, "labelCol", [label])
        self._sources(dataset, "weightCol", [weight] if weight else [])
        return label, weight

    # ---- the configuration ----

    def _config(self, dataset: DataFrame) -> JobConfig:
        if not self.isSet("model"):
            raise ConfigError("model is not set: name the function that returns the compiled model, as module:function")
        inputs, features = self._inputs(dataset)
        data: dict[str, Any] = {"inputs": inputs, "targets": {self.getOrDefault("outputName"): self.getLabelCol()}}
        given = self._given(dataset)
        params = {**features, **given, **self.getOrDefault("modelParams")}
        if self._names("weightCol"):
            data["sample_weight"] = self.getWeightCol()
        if self._names("validationIndicatorCol"):
            data["validation"] = {"where": quoted(self.getValidationIndicatorCol())}
        sections: dict[str, Any] = {
            "name": self.uid,
            "model": self._model(dataset.sparkSession),
            "params": params,
            "data": data,
            "cluster": {"workers": self.getOrDefault("numWorkers")},
            "train": {
                "batch_size": self.getOrDefault("batchSize"),
                "epochs": self.getOrDefault("epochs"),
                "seed": self.getSeed(),
                "classes": params["num_classes"] if "num_classes" in given else None,
            },
            "output": {"path": self._output(dataset.sparkSession)},
        }
        config = JobConfig.model_validate(_merged(sections, self.getOrDefault("config")))
        return (
            config.in_folder(functions_folder(dataset.sparkSession)) if callable(self.getOrDefault("model")) else config
        )

    def _model(self, spark: SparkSession) -> str:
        model = self.getOrDefault("model")
        if not callable(model):
            return str(model)
        return name_functions({"model": model}, functions_folder(spark))["model"]

    def write(self) -> MLWriter:
        """Returns the writer. Raises `ConfigError` if the model is a function object, which cannot be saved by name."""
        if self.isSet("model") and callable(self.getOrDefault("model")):
            raise ConfigError("model is a function object, which cannot be saved: name it as module:function")
        return super().write()

    def _inputs(self, dataset: DataFrame) -> tuple[dict[str, Any], dict[str, int]]:
        """Returns the inputs as configured, and the parameters that the model's function gets for them."""
        if self.isSet("inputs"):
            return self.getOrDefault("inputs"), {}
        name = self.getOrDefault("inputName")
        if self.isSet("inputCols"):
            return {name: self.getInputCols()}, {"num_features": len(self.getInputCols())}
        column = self.getFeaturesCol()
        (source,) = self._sources(dataset, "featuresCol", [column])
        if source != column or not isinstance(dataset.schema[column].dataType, (t.ArrayType, t.UserDefinedType)):
            return {name: [column]}, {"num_features": 1}
        first = dataset.select(quoted(column)).where(f"{quoted(column)} IS NOT NULL").head()
        if first is None:
            raise EmptySourceError(f"column {column!r} is null in all rows")
        return {name: {"columns": column, "shape": [len(first[0])]}}, {"num_features": len(first[0])}

    def _used(self, dataset: DataFrame) -> list[str]:
        """Returns the columns that training needs; others may have any type. All columns if `inputs` is set."""
        params = [name for name in ("labelCol", "weightCol", "validationIndicatorCol") if self._names(name)]
        used = [name for param in params for name in self._sources(dataset, param, [self.getOrDefault(param)])]
        if self.isSet("inputs"):
            used += dataset.columns
        elif self.isSet("inputCols"):
            used += self._sources(dataset, "inputCols", self.getInputCols())
        else:
            used += self._sources(dataset, "featuresCol", [self.getFeaturesCol()])
        return [quoted(name) for name in dict.fromkeys(used)]

    def _names(self, param: str) -> bool:
        """Whether a Param names a column; an empty name counts as unset, as in Spark."""
        return self.isDefined(param) and bool(self.getOrDefault(param))

    def _sources(self, dataset: DataFrame, param: str, names: Sequence[str]) -> list[str]:
        """Returns the columns behind names; "user.age" may be a field of the struct "user"."""
        columns = dataset.columns
        found = [name if name in columns else name.partition(".")[0] for name in names]
        for name, column in zip(names, found, strict=True):
            if column not in columns:
                raise ColumnError(f"there is no column {name!r} ({param}): name one of {', '.join(columns)}")
        return found

    def _output(self, spark: SparkSession) -> str:
        if self.isSet("outputPath"):
            return str(self.getOrDefault("outputPath"))
        return temporary_output(spark, "outputPath")


def _merged(sections: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns sections with further settings merged into them."""
    found = dict(sections)
    for name, value in more.items():
        both = isinstance(value, dict) and isinstance(found.get(name), dict)
        found[name] = _merged(found[name], value) if both else value
    return found


class KerasEstimator(FittingStage[KerasModel], VectorParams):
    """Trains a Keras model: `KerasEstimator(model="churn:build", featuresCol="features", labelCol="churned")`.

    Each row's features are a vector of Spark ML, dense or sparse, an array, or several columns of numbers (inputCols),
    and go into the model's input `inputName`; `inputs` names several. `fit` raises the errors of training. Where labels
    are classes or one number, `KerasClassifier` and `KerasRegressor` have the columns of Spark's own models.
    """

    _fits = KerasModel


class _Fits(Generic[F]):
    """The fits of several ParamMaps, one after the other, in the callers' threads."""

    def __init__(self, estimator: FittingStage[F], dataset: DataFrame, maps: Sequence[ParamMap]) -> None:
        self._estimator = estimator
        self._dataset = dataset
        self._maps = maps
        self._next = 0
        self._cluster: Cluster | None = None

    def __del__(self) -> None:
        # Whoever asks for them, such as CrossValidator, may fail over one of them and never ask for the others.
        self._close()

    def __iter__(self) -> _Fits[F]:
        return self

    def __next__(self) -> tuple[int, F]:
        with _ONE_AT_A_TIME:
            if self._next == len(self._maps):
                raise StopIteration
            number, self._next = self._next, self._next + 1
            try:
                return number, self._fit(self._estimator.copy(self._maps[number]))
            except BaseException:
                self._next = len(self._maps)
                raise
            finally:
                if self._next == len(self._maps):
                    self._close()

    def _fit(self, estimator: FittingStage[F]) -> F:
        config = estimator._config(self._dataset)
        if estimator._cluster is not None:
            return estimator._fitted(estimator._cluster, config, self._dataset)
        if self._cluster is not None and self._cluster.config.cluster != config.cluster:
            self._close()
        if self._cluster is None:
            self._cluster = Cluster(self._dataset.sparkSession, config)
        return estimator._fitted(self._cluster, config, self._dataset)

    def _close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
