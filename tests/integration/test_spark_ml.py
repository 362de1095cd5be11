"""Keras models as stages of Spark ML's pipelines, on real executors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from integration.application import Application


def test_a_pipeline_with_vectors_is_fitted_saved_and_predicts_the_same_when_it_is_loaded(
    local: Application, rows: Path, tmp_path: Path
) -> None:
    found = local.collect("cases.pipelines:regression", lake=str(rows), folder=str(tmp_path))
    assert len(found) == 600
    _, labels, predictions = np.array(found, float).T
    assert np.mean((labels - predictions) ** 2) < 0.1 * np.var(labels)


def test_a_classifier_has_the_columns_that_sparks_evaluators_ask_for(local: Application, rows: Path) -> None:
    found = np.array(local.collect("cases.pipelines:classification", lake=str(rows)), float)
    _, labels, predictions, chances, areas = found.T
    np.testing.assert_array_equal(predictions, chances > 0.5)
    assert np.mean(predictions == labels) > 0.9
    assert areas[0] > 0.95


def test_cross_validation_finds_the_better_of_two_and_trains_it_on_all_rows(local: Application, rows: Path) -> None:
    found = local.collect("cases.pipelines:validation", lake=str(rows))
    assert len(found) == 5
    _, worse, better = found[0]
    assert better < 0.5 * worse


def test_a_model_is_not_saved_over_the_run_that_holds_its_files(local: Application, rows: Path, tmp_path: Path) -> None:
    [[said]] = local.collect("cases.pipelines:overwritten", lake=str(rows), folder=str(tmp_path / "runs"))
    assert "the model's own files" in said
    assert list((tmp_path / "runs").rglob("saved_model.pb"))
