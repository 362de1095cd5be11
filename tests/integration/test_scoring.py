"""A model scores DataFrames as it was trained: the same columns become the same tensors, whoever reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparktf import BadValueError, ColumnError, ConfigError, LoadedModel, load_model

ROWS = 500


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with nulls in every column but the id, and lists of any length."""
    draw = np.random.default_rng(3)

    def some(values: Any) -> pa.Array:
        return pa.array(values, mask=draw.random(ROWS) < 0.2)

    words = np.array(["red", "green", "blue"])
    table = pa.table(
        {
            "id": np.arange(1, ROWS + 1),
            "a": some(draw.normal(size=ROWS).astype(np.float32)),
            "b": some(draw.normal(size=ROWS)),
            "c": pa.array(draw.integers(0, 9, ROWS)),
            "colour": some(words[draw.integers(0, 3, ROWS)]),
            "tags": pa.array([draw.normal(size=n).tolist() for n in draw.integers(0, 4, ROWS)]),
            "y": draw.normal(size=ROWS).astype(np.float32),
            "kind": draw.integers(0, 3, ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("scored") / "lake"
    folder.mkdir()
    pq.write_table(table, folder / "part-0.parquet")
    return folder


@pytest.fixture(scope="module")
def model(local: Application, lake: Path) -> Path:
    """The folder of a run whose model is published, with rows and what training predicted of them."""
    config = {
        "name": "scored",
        "model": "cases.scored:build",
        "data": {
            "path": str(lake),
            "inputs": {
                "id": "id",
                "x": ["a", "c"],
                "b": {"columns": ["b"], "mask": "b_there"},
                "colour": "colour",
                "tags": {"columns": "tags", "ragged": True, "dtype": "float32"},
            },
            "targets": {"y": "y", "kind": "kind"},
            "fill_null": {"a": 0.25, "colour": "none"},
        },
        "cluster": {"workers": 1},
        "train": {"batch_size": 50, "epochs": 1},
        "output": {"path": str(local.sandbox.runs)},
        "publish": {},
    }
    result = local.train(config, "1").done
    return Path(result.path)


@pytest.fixture
def loaded(model: Path, spark: SparkSession) -> LoadedModel:
    return load_model(spark, str(model))


def test_it_predicts_what_training_predicted(loaded: LoadedModel, model: Path, lake: Path, spark: SparkSession) -> None:
    df = spark.read.parquet(str(lake)).drop("y").select("tags", "colour", "kind", "c", "b", "a", "id")
    with np.load(model / "model/predictions.npz") as stored:
        ids = stored["inputs/id"].tolist()
        trained = {name: dict(zip(ids, stored[f"outputs/{name}"].tolist(), strict=True)) for name in ("y", "kind")}
    scored = loaded.transform(df.repartition(3), {"y": "y", "kind": "of_kind"}, batch_rows=64)
    assert scored.dtypes == [*df.dtypes, ("y", "float"), ("of_kind", "array<float>")]
    rows = {row.id: row for row in scored.collect()}
    assert sorted(rows) == list(range(1, ROWS + 1))
    assert len(ids) > 20
    for name, values in {"y": [rows[i].y for i in ids], "kind": [rows[i].of_kind for i in ids]}.items():
        expected = np.array([trained[name][i] for i in ids]).reshape(len(ids), -1)
        np.testing.assert_allclose(np.array(values).reshape(len(ids), -1), expected, rtol=1e-4, atol=1e-5)


def test_some_columns_go_on_and_some_outputs(loaded: LoadedModel, lake: Path, spark: SparkSession) -> None:
    df = spark.read.parquet(str(lake))
    scored = loaded.transform(df, {"y": "score"}, keep=["kind", "id"])
    assert scored.columns == ["kind", "id", "score"]
    assert scored.count() == ROWS
    whole = {row.id: row.y for row in loaded.transform(df.drop("y", "kind"), keep=["id"]).collect()}
    assert {row.id: row.score for row in scored.collect()} == pytest.approx(whole)


def test_what_training_would_refuse_is_refused_by_name(loaded: LoadedModel, lake: Path, spark: SparkSession) -> None:
    df = spark.read.parquet(str(lake)).drop("y", "kind")
    with pytest.raises(ColumnError, match=r"input colour: there is no column 'colour'; did you mean 'colours'\?"):
        loaded.transform(df.withColumnRenamed("colour", "colours"))
    with pytest.raises(BadValueError, match=r"input colour: column 'colour' is int64"):
        loaded.transform(df.withColumn("colour", f.col("id")))
    with pytest.raises(ConfigError, match="the model has no output 'z'"):
        loaded.transform(df, {"z": "z"})
    with pytest.raises(ConfigError, match="there is a column 'y' already"):
        loaded.transform(df.withColumn("y", f.lit(1)))


def test_rows_that_fail_a_check_end_the_job_or_have_no_prediction(
    loaded: LoadedModel, lake: Path, spark: SparkSession
) -> None:
    df = spark.read.parquet(str(lake)).drop("y", "kind").coalesce(1)
    damaged = df.withColumn("c", f.when(f.col("id") % 250 == 7, None).otherwise(f.col("c")))
    with pytest.raises(Exception, match=r"BadValueError: partition 0: column 'c', row 6: null; data\.fill_null\.c"):
        loaded.transform(damaged).collect()
    rows = loaded.transform(damaged, keep=["id"], max_bad_rows=2).collect()
    assert {row.id for row in rows if row.y is None} == {row.id for row in rows if row.kind is None} == {7, 257}
    assert len(rows) == ROWS
    with pytest.raises(Exception, match=r"2 rows fail a check, and data\.max_bad_rows is 1"):
        loaded.transform(damaged, max_bad_rows=1).collect()
