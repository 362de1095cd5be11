"""The Params of a Keras model among Spark ML's stages: by Spark's names, as Spark's own behave."""

from __future__ import annotations

import pytest

from sparktf.ml import KerasEstimator, KerasModel


def test_each_param_has_a_name_of_sparks_a_doc_a_getter_and_a_setter() -> None:
    estimator = KerasEstimator(model="m:build")
    names = {param.name for param in estimator.params}
    assert {
        "featuresCol",
        "inputCols",
        "labelCol",
        "weightCol",
        "validationIndicatorCol",
        "predictionCol",
        "probabilityCol",
        "rawPredictionCol",
        "seed",
        "numWorkers",
        "batchSize",
        "epochs",
    } <= names
    told = estimator.explainParams()
    for param in estimator.params:
        assert param.doc
        assert f"{param.name}: " in told
        assert callable(getattr(estimator, f"set{param.name[0].upper()}{param.name[1:]}", None)), param.name


def test_params_are_set_by_keywords_and_setters_and_those_of_another_type_are_refused() -> None:
    estimator = KerasEstimator(model="m:build", epochs=3, modelParams={"width": 8}).setBatchSize(64)
    assert estimator.getOrDefault("epochs") == 3
    assert estimator.getOrDefault("batchSize") == 64
    assert estimator.getOrDefault("modelParams") == {"width": 8}
    assert (estimator.getLabelCol(), estimator.getPredictionCol()) == ("label", "prediction")
    with pytest.raises(TypeError):
        KerasEstimator(epochs="many")
    with pytest.raises(TypeError):
        estimator.setModelParams([1])


def test_a_copy_has_its_own_values_and_a_model_takes_those_that_it_knows() -> None:
    estimator = KerasEstimator(model="m:build", epochs=3, predictionCol="score")
    other = estimator.copy({estimator.epochs: 5})
    assert (estimator.getOrDefault("epochs"), other.getOrDefault("epochs")) == (3, 5)
    assert other.uid == estimator.uid
    model = estimator._copyValues(KerasModel("/m"))
    assert (model.getPredictionCol(), model.path) == ("score", "/m")
    assert not model.hasParam("epochs")
    assert model.copy().path == "/m"
