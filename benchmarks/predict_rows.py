"""Scoring beside Spark's own function for it, with the same model: `make bench-predict`.

`load_model(...).transform(df)` and `pyspark.ml.functions.predict_batch_udf`, alternating in one application on
local[2], over the same Parquet table of 17 floats, to nowhere (Spark's noop sink). The function gets what its
documentation shows: an array of the columns, a model that is loaded once a worker, and batches as large as ours. Both
have scored a few rows before they are timed, so that the model is loaded. TensorFlowOnSpark's `TFModel.transform`
scores a smaller table with the same SavedModel, in processes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _lake import float_columns, write_lake
from _report import figure, report
from _submit import submit
from dataframe import install_peer
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import FloatType

from sparktf import load_model

ROWS, FEW, RUNS = 5_000_000, 50_000, 5
BATCH_ROWS = 4096
COLUMNS = 16


def by_udf(df: DataFrame, saved_model: str) -> DataFrame:
    """Returns the rows with predictions of Spark's own function."""

    def load() -> Callable[[Any], Any]:
        import tensorflow as tf  # noqa: PLC0415 - in the worker

        serve = tf.saved_model.load(saved_model).signatures["serving_default"]

        def predict(x: Any) -> Any:
            (y,) = serve(x=tf.constant(x, tf.float32)).values()
            return np.squeeze(y.numpy(), -1)

        load.kept = serve  # type: ignore[attr-defined]
        return predict

    scored = predict_batch_udf(load, return_type=FloatType(), batch_size=BATCH_ROWS, input_tensor_shapes=[[COLUMNS]])
    return df.select("y", scored(sql.array(*(f"x{i}" for i in range(COLUMNS)))).alias("prediction"))


def by_tfmodel(folder: Path, saved_model: str, output: str, packages: Path, work: Path) -> float:
    """Returns the rows per second of TensorFlowOnSpark's TFModel, of the real package."""
    script, out = Path(__file__).with_name("_tfmodel.py"), work / "tfmodel.json"
    path = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, str(script), str(folder), saved_model, output, str(COLUMNS), str(out)],
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "PYSPARK_PYTHON": sys.executable},
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not out.exists():
        raise SystemExit(f"TFModel ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found = json.loads(out.read_text())
    return float(found["rows"] / found["seconds"])


def seconds(df: DataFrame) -> float:
    """Returns how long it takes to compute the rows."""
    began_s = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began_s


def main() -> None:
    """Measures and reports."""
    runs = int(os.environ.get("RUNS", RUNS))
    schema, few = float_columns(ROWS), float_columns(FEW)
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        work = Path(root) / "work"
        work.mkdir()
        lake, little = write_lake(Path(root) / "lake", schema), write_lake(Path(root) / "few", few)
        result = submit(little, work, few, workers=1, batch_size=1024).result
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(2 * BATCH_ROWS))
        model = load_model(spark, result["model"])
        ways: dict[str, Callable[[DataFrame], DataFrame]] = {
            "transform": lambda df: model.transform(df, keep=["y"], batch_rows=BATCH_ROWS),
            "predict_batch_udf": lambda df: by_udf(df, f"{result['model']}/saved_model"),
        }
        sums = {
            name: way(spark.read.parquet(str(little))).agg(sql.sum("prediction")).collect()[0][0]
            for name, way in ways.items()
        }
        assert np.isclose(*sums.values()), sums
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(runs):
            for name, way in ways.items():
                rates[name].append(ROWS / seconds(way(spark.read.parquet(str(lake)))))
            print({name: round(found[-1]) for name, found in rates.items()}, file=sys.stderr, flush=True)
        output = model.outputs[0]
        spark.stop()
        packages = Path(root) / "peer"
        install_peer(packages)
        saved_model, peers = f"{result['model']}/saved_model", []
        for _ in range(runs):
            peers.append(by_tfmodel(little, saved_model, output, packages, work))
            print(f"TFModel: {peers[-1]:,.0f}", file=sys.stderr, flush=True)
    pairs = zip(rates["transform"], rates["predict_batch_udf"], strict=True)
    report(
        "predict",
        [
            *(figure(name, found, unit="rows/s") for name, found in rates.items()),
            figure("transform / predict_batch_udf", [ours / theirs for ours, theirs in pairs], unit="", goal=">= 1.2"),
            figure("TensorFlowOnSpark's TFModel.transform", peers, unit="rows/s"),
            figure(
                "transform / TFModel.transform",
                [ours / theirs for ours, theirs in zip(rates["transform"], peers, strict=True)],
                unit="",
                goal=">= 20",
            ),
        ],
    )


if __name__ == "__main__":
    main()
