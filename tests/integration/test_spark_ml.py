"""Keras models as stages of Spark ML's pipelines, on real executors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.processes import wait_for
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession

from sparktf.ml import KerasModel


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
    label, prediction, probability, raw, [worse, *_], [better, *_], [reservations, *_] = map(
        np.array, zip(*found, strict=True)
    )
    assert probability.shape == (600, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(raw, probability)
    np.testing.assert_array_equal(prediction, probability.argmax(axis=1))
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
    assert isinstance(stage, KerasModel)
    assert stage.result is None
    again = model.transform(spark.read.parquet(str(rows))).select("id", "prediction").collect()
    assert {row.id: row.prediction for row in again} == {row[0]: row[1] for row in first}
