"""Columns of Spark ML's vectors, dense and sparse, are trained as lists of the same numbers are, whoever reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.rows import job
from integration.weights import descended, weights_of
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

ROWS = 240
EPOCHS = 3
TRAIN = {"batch_size": ROWS, "epochs": EPOCHS}

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("l", ArrayType(DoubleType())),
        StructField("v", VectorUDT()),
        StructField("y", DoubleType()),
    ]
)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose numbers stand in a list and in a vector, every other one of which is sparse."""
    draw = np.random.default_rng(5)
    x = (draw.normal(size=(ROWS, 2)) * (draw.random((ROWS, 2)) < 0.6)).tolist()
    rows = [
        (i + 1, [a, b], Vectors.dense(a, b) if i % 2 else Vectors.sparse(2, {0: a, 1: b}), 2 * a - b + 1)
        for i, (a, b) in enumerate(x)
    ]
    folder = tmp_path_factory.mktemp("vectors") / "lake"
    spark.createDataFrame(rows, SCHEMA).coalesce(2).write.parquet(str(folder))
    return folder


def of_column(column: str, lake: Path, runs: Path, name: str, **data: Any) -> dict[str, Any]:
    config = job(lake, runs, "cases.watched:build", name=name, train=TRAIN, cluster={"workers": 1})
    config["data"] |= {"inputs": {"id": "id", "x": {"columns": column, "shape": [2]}}, **data}
    return config


def test_vectors_train_as_lists_do_read_by_trainers_and_fed_by_spark(local: Application, lake: Path) -> None:
    table = pq.read_table(lake, columns=["l", "y"])
    expected = descended(np.stack(table["l"].to_pylist()), table["y"].to_numpy(), updates=EPOCHS)
    for mode in ("direct", "spark"):
        result = local.train(of_column("v", lake, local.sandbox.runs, mode, mode=mode, checks={}), "r").done
        assert [rows.trained for rows in result.rows] == [ROWS] * EPOCHS
        np.testing.assert_allclose(weights_of(Path(result.model)), expected, rtol=1e-5)


def test_a_vector_of_another_length_and_a_missing_shape_are_told_as_of_lists(
    local: Application, lake: Path, spark: SparkSession, tmp_path: Path
) -> None:
    config = of_column("v", lake, local.sandbox.runs, "odd")
    config["data"]["inputs"]["x"] = "v"
    refused = local.train(config, "r")
    assert refused.error == "ConfigError"
    assert "shape" in refused.message
    rows = [(1, [1.0, 2.0], Vectors.dense(1, 2), 1.0), (2, [1.0, 2.0], Vectors.sparse(3, {0: 1.0}), 1.0)]
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(tmp_path / "odd"))
    for mode in ("direct", "spark"):
        refused = local.train(of_column("v", tmp_path / "odd", local.sandbox.runs, f"odd-{mode}", mode=mode), "r")
        assert refused.error == "BadValueError"
        assert "column 'v', row 1: a list of 3 values, not 2" in refused.message
