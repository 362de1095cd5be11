"""The Params of a Keras model among Spark ML's stages: by Spark's names, as Spark's own behave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.ml.classification import ProbabilisticClassificationModel, ProbabilisticClassifier
from pyspark.ml.param import Param
from pyspark.ml.regression import RegressionModel, Regressor

from sparktf.errors import ConfigError
from sparktf.ml import (
    KerasClassificationModel,
    KerasClassifier,
    KerasEstimator,
    KerasModel,
    KerasRegressionModel,
    KerasRegressor,
)
from sparktf.ml.classification import check_thresholds

ESTIMATORS = (KerasEstimator, KerasClassifier, KerasRegressor)
MODELS = (KerasModel, KerasClassificationModel, KerasRegressionModel)
STAGES: list[Any] = [*ESTIMATORS, *MODELS]
Stage = KerasEstimator | KerasClassifier | KerasRegressor | KerasModel | KerasClassificationModel | KerasRegressionModel

VALUES: dict[str, Any] = {
    "batchRows": 7,
    "batchSize": 64,
    "config": {"train": {"early_stopping": {"patience": 3}}},
    "epochs": 3,
    "featuresCol": "assembled",
    "fromLogits": True,
    "inputCols": ["a", "b"],
    "inputName": "x",
    "inputs": {"x": ["a"], "z": ["b"]},
    "labelCol": "y",
    "model": "m:build",
    "modelParams": {"width": 8},
    "numWorkers": 2,
    "outputName": "out",
    "outputPath": "hdfs:///runs",
    "predictionCol": "score",
    "probabilityCol": "chances",
    "rawPredictionCol": "raw",
    "seed": 11,
    "thresholds": [0.2, 0.8],
    "validationIndicatorCol": "held",
    "weightCol": "weight",
}
"""A value of each Param, other than its default."""
UNDEFINED = {"fromLogits", "inputCols", "inputs", "model", "outputPath", "thresholds"}
UNDEFINED |= {"validationIndicatorCol", "weightCol"}
OF_CLASSES = {"fromLogits", "thresholds"}
VECTORS = {"probabilityCol", "rawPredictionCol"}


@pytest.fixture(params=STAGES, ids=lambda kind: kind.__name__)
def stage(request: pytest.FixtureRequest) -> Stage:
    made: Stage = request.param()
    return made


def accessor(stage: Stage, kind: str, param: Param[Any]) -> Any:
    return getattr(stage, f"{kind}{param.name[0].upper()}{param.name[1:]}")


def test_every_param_is_its_stages_own_by_the_name_of_its_attribute_and_is_explained(stage: Stage) -> None:
    assert type(stage)().uid != stage.uid
    assert stage.uid.startswith(f"{type(stage).__name__}_")
    # Properties of models, such as numClasses, read their files.
    names = [name for name in dir(stage) if not isinstance(getattr(type(stage), name, None), property)]
    attributes = {name for name in names if isinstance(getattr(stage, name), Param)}
    assert [param.name for param in stage.params] == sorted(attributes)
    assert attributes <= VALUES.keys()
    told = dict(line.split(": ", 1) for line in stage.explainParams().splitlines())
    assert told.keys() == attributes
    for param in stage.params:
        assert getattr(stage, param.name) is stage.getParam(param.name) is param
        assert param.parent == stage.uid
        assert param.doc and param.doc in told[param.name]
        assert told[param.name].endswith("(undefined)") == (param.name in UNDEFINED)
    assert stage.hasParam("inputs") == isinstance(stage, ESTIMATORS)


def test_each_kind_of_estimator_has_the_params_of_its_columns() -> None:
    of_any, of_classes, of_numbers = ({param.name for param in kind().params} for kind in ESTIMATORS)
    assert of_classes == VALUES.keys()
    assert of_any == of_classes - OF_CLASSES
    assert of_numbers == of_any - VECTORS
    assert (KerasEstimator().getProbabilityCol(), KerasEstimator().getRawPredictionCol()) == ("", "")
    for stage in (KerasClassifier(), KerasClassificationModel()):
        assert (stage.getProbabilityCol(), stage.getRawPredictionCol()) == ("probability", "rawPrediction")
        assert isinstance(stage, ProbabilisticClassifier | ProbabilisticClassificationModel)
    assert isinstance(KerasRegressor(), Regressor) and isinstance(KerasRegressionModel(), RegressionModel)


def test_a_param_as_xgboost_spells_it_is_refused_with_its_name_here() -> None:
    spelt = {
        "features_col": "featuresCol",
        "features_cols": "inputCols",
        "label_col": "labelCol",
        "weight_col": "weightCol",
        "prediction_col": "predictionCol",
        "probability_col": "probabilityCol",
        "raw_prediction_col": "rawPredictionCol",
        "validation_indicator_col": "validationIndicatorCol",
        "num_workers": "numWorkers",
        "batch_size": "batchSize",
    }
    for theirs, ours in spelt.items():
        with pytest.raises(TypeError) as refusal:
            KerasClassifier(model="m:build", **{theirs: "y"})
        assert str(refusal.value) == f"there is no Param {theirs!r}: it is called {ours}"


def test_thresholds_are_one_of_each_class_and_greater_than_0_but_for_one() -> None:
    for good in ([], [0.0, 1.0], [0.5, 0.5]):
        check_thresholds(good, 2)
    for wrong in ([0.5], [0.2, 0.3, 0.5], [0.0, 0.0], [-0.1, 0.5], [float("nan"), 0.5]):
        with pytest.raises(ConfigError, match="thresholds"):
            check_thresholds(wrong, 2)


def test_a_default_is_a_value_that_a_param_takes_and_what_has_none_is_neither_defined_nor_set(stage: Stage) -> None:
    for param in stage.params:
        assert not stage.isSet(param)
        assert stage.hasDefault(param) == stage.isDefined(param) == (param.name not in UNDEFINED)
        if param.name in UNDEFINED:
            with pytest.raises(KeyError):
                stage.getOrDefault(param)
        else:
            assert param.typeConverter(stage.getOrDefault(param)) == stage.getOrDefault(param)


def test_a_setter_sets_what_its_getter_returns_until_it_is_cleared(stage: Stage) -> None:
    for param in stage.params:
        value = VALUES[param.name]
        assert not stage.hasDefault(param) or stage.getOrDefault(param) != value
        assert accessor(stage, "set", param)(value) is stage
        assert accessor(stage, "get", param)() == stage.getOrDefault(param) == stage.getOrDefault(param.name) == value
        assert stage.isSet(param)
        assert f"current: {value}" in stage.explainParam(param)
    assert stage.extractParamMap() == {param: VALUES[param.name] for param in stage.params}
    for param in stage.params:
        stage.clear(param)
        assert not stage.isSet(param)
        assert stage.isDefined(param) == (param.name not in UNDEFINED)


def test_keywords_set_params_and_what_is_none_is_named() -> None:
    made = KerasClassifier(**VALUES)
    assert {param.name: made.getOrDefault(param) for param in made.params} == VALUES
    assert made.setParams(epochs=9, predictionCol="p") is made
    assert (made.getEpochs(), made.getPredictionCol(), made.getBatchSize()) == (9, "p", 64)
    for call in (*ESTIMATORS, made.setParams):
        with pytest.raises(TypeError, match=r"no Param 'epoch'.* epochs"):
            call(epoch=3)
    with pytest.raises(TypeError, match="keyword"):
        KerasClassifier("m:build")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="keyword"):
        made.setParams("m:build")  # type: ignore[call-arg]
    assert made.getEpochs() == 9


def test_values_are_converted_or_refused_by_their_params_name() -> None:
    made = KerasEstimator(epochs=np.int64(3), seed=4.0, inputCols=np.array(["a", "b"]))
    assert (made.getEpochs(), made.getSeed(), made.getInputCols()) == (3, 4, ["a", "b"])
    assert {type(made.getEpochs()), type(made.getSeed())} == {int}
    made.setModelParams({"rate": np.float32(0.5), "layers": (np.int64(8), 4)})
    assert made.getModelParams() == {"rate": 0.5, "layers": [8, 4]}
    assert type(made.getModelParams()["layers"][0]) is int
    wrong: dict[str, list[Any]] = {
        "epochs": ["many", 2.5, 0],
        "batchSize": [[1], 0],
        "numWorkers": ["2", -1],
        "batchRows": [0],
        "labelCol": [3],
        "inputCols": ["a", [1, 2]],
        "modelParams": [[1], {"f": object()}],
        "config": ["train"],
        "model": [3],
        "outputPath": [1],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match=f'"{name}"'):
                KerasEstimator(**{name: value})


def test_none_is_as_what_was_never_set() -> None:
    made = KerasEstimator(model="m:build", weightCol=None, epochs=None, inputCols=["a"])
    assert not made.isDefined("weightCol")
    assert made.getEpochs() == 1
    assert not made.setInputCols(None).isSet("inputCols")
    assert not made.copy({made.model: None}).isDefined("model")


def test_a_dict_that_was_handed_over_may_change_and_the_param_does_not() -> None:
    mine = {"width": 8}
    made = KerasEstimator(modelParams=mine)
    mine["width"] = 9
    assert made.getModelParams() == {"width": 8}


def test_a_copy_has_its_own_values_and_is_the_same_stage(stage: Stage) -> None:
    stage.setPredictionCol("score")
    other = stage.copy({stage.batchRows: 5})
    assert type(other) is type(stage)
    assert (stage.getBatchRows(), other.getBatchRows()) == (4096, 5)
    assert (other.uid, other.getPredictionCol()) == (stage.uid, "score")
    assert all(param.parent == stage.uid for param in other.params)
    other.setPredictionCol("other").setBatchRows(6)
    assert (stage.getPredictionCol(), stage.getBatchRows()) == ("score", 4096)
    # A map of Params may hold those of other stages of a pipeline.
    assert stage.copy({type(stage)().batchRows: 5}).getBatchRows() == 4096
    with pytest.raises(TypeError, match='"predictionCol"'):
        stage.copy({stage.predictionCol: 3})


def test_a_model_takes_the_values_that_it_knows() -> None:
    kinds: Any = zip(ESTIMATORS, MODELS, strict=True)
    for kind, of in kinds:
        estimator = kind(model="m:build", epochs=3, predictionCol="score")
        model = estimator._copyValues(of("/m"))
        assert (model.getPredictionCol(), model.path) == ("score", "/m")
        assert not model.hasParam("epochs")
        assert model.copy().path == "/m"
