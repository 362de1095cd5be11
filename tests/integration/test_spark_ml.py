"""Keras models as stages of Spark ML's pipelines, on real executors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.processes import wait_for
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparktf.errors import BadValueError, ConfigError, ModelContractError
from sparktf.feature import FeedSpec
from sparktf.ml import KerasClassificationModel, KerasModel, KerasRegressionModel
from sparktf.ml.class_scores import class_scores
from sparktf.ml.labels import check_numbers, class_count
from sparktf.predict.exported_model import ExportedModel
from sparktf.predict.loaded import LoadedModel
from sparktf.wire.exported import ModelFeed, ModelOutput


def test_a_pipeline_with_vectors_predicts_the_same_wherever_it_is_saved_over_its_run_and_its_own_files_too(
    local: Application, rows: Path, tmp_path: Path
) -> None:
    found = local.collect("cases.pipelines:regression", lake=str(rows), folder=str(tmp_path / "runs"))
    assert len(found) == 600
    _, labels, predictions = np.array(found, float).T
    assert np.mean((labels - predictions) ** 2) < 0.1 * np.var(labels)
    assert len(list((tmp_path / "runs").rglob("saved_model.pb"))) == 1


@pytest.mark.more(
    "integration/test_spark_ml.py::test_a_search_over_a_pipeline_of_classes_shares_its_nodes_and_is_saved_with_all_of_its_models",
)
def test_a_classifier_has_the_columns_that_sparks_evaluators_ask_for(local: Application, rows: Path) -> None:
    found = np.array(local.collect("cases.pipelines:classification", lake=str(rows)), float)
    _, labels, predictions, chances, areas = found.T
    np.testing.assert_array_equal(predictions, chances > 0.5)
    assert np.mean(predictions == labels) > 0.9
    assert areas[0] > 0.95


@pytest.mark.more(
    "integration/test_spark_ml.py::test_a_search_over_a_pipeline_of_classes_shares_its_nodes_and_is_saved_with_all_of_its_models",
    "integration/test_spark_ml.py::test_a_cross_validated_pipeline_of_two_workers_predicts_the_same_where_somebody_else_loads_it",
)
def test_cross_validation_finds_the_better_of_two_and_trains_it_on_all_rows(local: Application, rows: Path) -> None:
    found = local.collect("cases.pipelines:validation", lake=str(rows))
    assert len(found) == 5
    _, worse, better, reservations = found[0]
    assert better < 0.5 * worse
    assert reservations == 3, "one for the fits of each fold, and one for the last fit"


def test_weights_count_held_out_rows_are_evaluated_alone_and_several_inputs_are_as_one(local: Application) -> None:
    rows = local.collect("cases.stages:weighted")
    numbers = np.array([[*row[0], 1, *row[1:7]] for row in rows], float)
    x, held = numbers[:, :4], numbers[:, 6] == 1
    label, weight, prediction, of_two, again = numbers[:, [4, 5, 7, 8, 9]].T
    losses, held_losses, said = rows[0][7:]
    weights, expected = np.zeros(4), []
    for _ in range(4):
        error = x @ weights - label
        trained = np.mean((weight * error**2)[~held])
        weights = weights - 0.1 * 2 * np.mean((weight * error * x.T).T[~held], axis=0)
        expected.append([trained, np.mean((weight * (x @ weights - label) ** 2)[held])])
    np.testing.assert_allclose(prediction, x @ weights, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_two, prediction, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(again, prediction)
    np.testing.assert_allclose(np.transpose([losses, held_losses]), expected, rtol=1e-4)
    assert np.std(weight) > 0 and 0 < held.sum() < len(held)
    exists, other, no_label, no_weight, no_features, no_model = said
    assert exists.startswith("ConfigError: there is a column 'prediction' already")
    assert other.startswith("ConfigError: the model was trained on 1 columns (all of it), and cannot read 2")
    assert no_label.startswith("ColumnError: there is no column 'lable' (labelCol): name one of id, ")
    assert no_weight.startswith("ColumnError: there is no column 'w' (weightCol)")
    assert no_features.startswith("ColumnError: there is no column 'features' (featuresCol)")
    assert no_model.startswith("ConfigError: model is not set")


def test_a_search_over_a_pipeline_of_classes_shares_its_nodes_and_is_saved_with_all_of_its_models(
    local: Application, rows: Path, tmp_path: Path
) -> None:
    found = local.collect("cases.stages:searched", lake=str(rows), folder=str(tmp_path))
    assert len(found) == 600
    label, prediction, probability, raw, [worse, *_], [better, *_], [reservations, *_], named = map(
        np.array, zip(*found, strict=True)
    )
    assert probability.shape == (600, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(raw), probability, rtol=1e-5)
    np.testing.assert_array_equal(prediction, probability.argmax(axis=1))
    np.testing.assert_array_equal(named, prediction == label)
    assert set(label) == {0, 1, 2}
    assert np.mean(prediction == label) > 0.85
    assert better > 0.8 > worse
    assert reservations == 1, "of three fits"
    # Those of candidates have ended, or each of a large search would hold its memory for a minute.
    wait_for(
        "one process scores, the best model's",
        lambda: len(local.family.processes("sparktf.trainer.scoring")) == 1,
        within_s=20,
    )
    [[accuracy, area, by_chance, said]] = local.collect("cases.stages:of_two", lake=str(rows))
    assert accuracy > 0.8
    assert area == pytest.approx(by_chance, abs=1e-3)
    # By the trainers, before they train.
    assert said.startswith(
        "ModelContractError: model: its output tells 2 classes apart, and data.targets.label (column label) has 3: give"
    )


def test_a_fit_in_a_searchs_thread_ends_when_all_jobs_are_cancelled_and_its_cluster_fits_again(
    local: Application, rows: Path
) -> None:
    [[said, trained]] = local.collect("cases.stages:interrupted", lake=str(rows))
    assert said.startswith("RunInterruptedError: all jobs of the application were cancelled")
    assert trained == 600


def test_a_cross_validated_pipeline_of_two_workers_predicts_the_same_where_somebody_else_loads_it(
    cluster: Application, spark: SparkSession, rows: Path, tmp_path: Path
) -> None:
    first = cluster.collect("cases.stages:kept", lake=str(rows), folder=str(tmp_path))
    [(workers, error)] = {tuple(row[2:]) for row in first}
    labels = dict(zip(*(pq.read_table(rows, columns=[name])[name].to_pylist() for name in ("id", "y")), strict=True))
    assert workers == 2
    assert np.mean([(labels[row[0]] - row[1]) ** 2 for row in first]) < error, "the best one has learnt from all rows"
    assert error < 0.05 * np.var(list(labels.values()))
    moved = tmp_path / "elsewhere"
    (tmp_path / "saved").rename(moved)
    shutil.rmtree(tmp_path / "runs")
    os.umask(mask := os.umask(0))
    for path in moved.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes(), path
    model = PipelineModel.load(str(moved))
    stage = model.stages[1]
    assert isinstance(stage, KerasRegressionModel)
    assert stage.result is None
    assert not stage.hasSummary
    with pytest.raises(RuntimeError, match="this KerasRegressionModel was loaded, and has no summary"):
        stage.summary  # noqa: B018
    scored = model.transform(spark.read.parquet(str(rows)))
    again = scored.select("id", "features", "prediction").collect()
    assert {row.id: row.prediction for row in again} == {row[0]: row[1] for row in first}
    assert scored.schema["prediction"].metadata == {"ml_attr": {}}, "as of LinearRegression"
    assert stage.numFeatures == 2
    assert stage.predict(again[0].features) == pytest.approx(again[0].prediction, rel=1e-5)


def exported(spark: SparkSession, shape: tuple[int | None, ...], from_logits: bool | None) -> LoadedModel:
    """Returns a model as it describes itself, of which there are no files."""
    output = ModelOutput(name="label", dtype="float32", shape=shape)
    feed = ModelFeed(spec=FeedSpec(features=()), outputs=(output,), from_logits=from_logits)
    return LoadedModel(spark, ExportedModel("/m", "/m", (), "key", feed))


def test_a_model_that_is_none_of_its_kind_is_refused_with_the_kind_that_it_is_one_of(spark: SparkSession) -> None:
    output, classifier, regressor = f.col("output"), KerasClassificationModel("/m"), KerasRegressionModel("/m")
    made = ["rawPrediction", "probability", "prediction"]
    assert list(classifier._columns(output, exported(spark, (1,), True))) == made
    assert list(classifier._columns(output, exported(spark, (4,), False))) == made
    assert (
        list(classifier.copy({classifier.rawPredictionCol: ""})._columns(output, exported(spark, (), True))) == made[1:]
    )
    with pytest.raises(ConfigError, match=r"fromLogits is not set.*: model\.setFromLogits\(True\) or \(False\)"):
        classifier._columns(output, exported(spark, (4,), None))
    assert list(classifier.setFromLogits(True)._columns(output, exported(spark, (4,), None))) == made
    for shape in ((2, 2), (None,)):
        with pytest.raises(ModelContractError, match="one for each class; KerasEstimator trains any model"):
            classifier._columns(output, exported(spark, shape, True))
    assert list(regressor._columns(output, exported(spark, (1,), None))) == ["prediction"]
    with pytest.raises(ModelContractError, match=r"of shape \(3,\): a regressor's are one number; KerasEstimator"):
        regressor._columns(output, exported(spark, (3,), None))
    general = KerasModel("/m")
    assert list(general._columns(output, exported(spark, (3,), True))) == ["prediction"]
    with pytest.raises(ConfigError, match="gives logits, which are no probabilities: train it by KerasClassifier"):
        general.setProbabilityCol("probability")._columns(output, exported(spark, (3,), True))


def test_a_model_of_any_kind_takes_its_output_for_probabilities_where_their_column_is_named(
    spark: SparkSession,
) -> None:
    model = KerasModel("/m").setProbabilityCol("chances")
    for kind, values, shape, expected in (
        ("float", (0.25, 0.75), (1,), [(0, [0.75, 0.25]), (1, [0.25, 0.75])]),
        ("array<float>", ([0.25, 0.25, 0.5], [1.0, 0.0, 0.0]), (3,), [(2, [0.25, 0.25, 0.5]), (0, [1.0, 0.0, 0.0])]),
    ):
        frame = spark.createDataFrame([(value,) for value in values], f"output {kind}").coalesce(1)
        made = model._columns(f.col("output"), exported(spark, shape, False))
        found = frame.select(*(column.alias(name) for name, column in made.items())).collect()
        assert [(row.prediction, row.chances.toArray().tolist()) for row in found] == expected


LOGITS = [[2.0, -1.0, 0.5], [-40.0, 1000.0, 998.0], [0.0, 0.0, 0.0]]
CHANCES = [[0.25, 0.25, 0.5], [0.0, 1.0, 0.0], [0.3, 0.3, 0.3]]


@pytest.mark.parametrize(("given", "from_logits"), [(LOGITS, True), (CHANCES, False)], ids=["logits", "chances"])
def test_scores_of_several_classes_are_logits_and_probabilities_of_each_other(
    given: list[list[float]], from_logits: bool, spark: SparkSession
) -> None:
    frame = spark.createDataFrame([(row,) for row in given], "output array<float>").coalesce(1)
    scores = class_scores(f.col("output"), 3, is_single=False, from_logits=from_logits)
    favouring = class_scores(
        f.col("output"), 3, is_single=False, from_logits=from_logits, thresholds=[1.0, 0.9, 0.0]
    ).prediction
    scored = frame.select(*scores, favouring.alias("favoured")).collect()
    raw, probability = (np.array([row[i].toArray() for row in scored]) for i in (0, 1))
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    np.testing.assert_allclose(probability, powers / powers.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-30)
    if from_logits:
        np.testing.assert_allclose(raw, given)
    else:
        np.testing.assert_allclose(probability, np.array(given) / np.sum(given, axis=1, keepdims=True), rtol=1e-6)
    assert np.isfinite(raw).all()
    assert [row[2] for row in scored] == np.argmax(given, axis=1).tolist()
    # A class whose threshold is 0 is predicted where it has any probability at all.
    assert [row[3] for row in scored] == np.where(probability[:, 2] > 0, 2, 1).tolist()


@pytest.mark.parametrize(
    ("given", "from_logits"),
    [([-800.0, -1.0, 0.0, 1e-6, 30.0], True), ([0.0, 0.3, 0.5, 0.50001, 1.0], False)],
    ids=["logits", "chances"],
)
def test_scores_of_one_value_are_of_two_classes_whose_logits_are_opposite(
    given: list[float], from_logits: bool, spark: SparkSession
) -> None:
    frame = spark.createDataFrame([(value,) for value in given], "output float").coalesce(1)
    scored = frame.select(*class_scores(f.col("output"), 2, is_single=True, from_logits=from_logits)).collect()
    raw, probability = (np.array([row[i].toArray() for row in scored]) for i in (0, 1))
    np.testing.assert_array_equal(raw[:, 0], -raw[:, 1])
    expected = np.array(given) if not from_logits else np.exp(-np.logaddexp(0, -np.array(given)))
    np.testing.assert_allclose(probability[:, 1], expected, rtol=1e-6)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(-np.logaddexp(0, -raw[:, 1])), expected, rtol=1e-6, atol=1e-30)
    assert (np.diff(raw[:, 1]) > 0).all() and np.isfinite(raw).all()
    assert [row.prediction for row in scored] == [0, 0, 0, 1, 1]


def test_labels_are_checked_as_sparks_own_estimators_do(spark: SparkSession) -> None:
    rows = spark.range(3)

    def classes(label: str, weight: str = "1.0", metadata: dict[str, Any] | None = None) -> str:
        column = f.expr(label).alias("kind", metadata=metadata or {})
        try:
            return str(class_count(rows.select(column, f.expr(weight).alias("w")), "kind", "w"))
        except BadValueError as error:
            return str(error)

    assert [classes(label) for label in ("id", "cast(id as double)", "0", "cast(id as decimal(3,1))")] == [*"3323"]
    assert classes("id", metadata={"ml_attr": {"type": "nominal", "vals": [*"abcd"]}}) == "4"
    assert classes("0", metadata={"ml_attr": {"type": "binary"}}) == "2"
    each = "each has to be a class: 0, 1, 2 and so on, as StringIndexer makes them"
    assert classes("id - 1") == f"column 'kind' (labelCol) has a wrong value, such as -1.0: {each}"
    assert classes("id / 2") == f"column 'kind' (labelCol) has a wrong value, such as 0.5: {each}"
    assert classes("if(id = 1, null, 0)") == f"column 'kind' (labelCol) has a wrong value, such as null: {each}"
    assert classes("double('nan')") == f"column 'kind' (labelCol) has 3 wrong values, such as nan: {each}"
    assert classes("double('inf')") == f"column 'kind' (labelCol) has 3 wrong values, such as inf: {each}"
    assert "one of the 2 classes that the column's metadata has: 0 to 1" in classes(
        "id", metadata={"ml_attr": {"type": "nominal", "num_vals": 2}}
    )
    assert classes("'x'").startswith("column 'kind' (labelCol) is string, and has to be numbers: put StringIndexer(")
    assert classes("true").startswith("column 'kind' (labelCol) is boolean, and has to be numbers: put StringIndexer(")
    assert classes("id", "id - 1") == (
        "column 'w' (weightCol) has a wrong value, such as -1.0: each has to be a finite number, 0 or more"
    )
    frame = rows.select(f.expr("if(id = 1, double('nan'), -0.5)").alias("price"), f.struct("id").alias("of"))
    check_numbers(frame, "of.id", "")
    with pytest.raises(BadValueError, match=r"'price' .* such as nan: each has to be a finite number"):
        check_numbers(frame, "price", "")
