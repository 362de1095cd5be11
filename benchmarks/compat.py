"""What guests bring along, beside what they come from: `make bench-compat`.

TFRecord files: our feed beside tf.data with `parse_example`, in order, each in a process of its own that is bound to
one core, alternating. Both end in batches of arrays; the checksums are checked by both.

A script of TensorFlowOnSpark that drains its feed to NumPy (`_tensorflowonspark.py`): on sparktf, and on the real
package, alternating; a table of 17 float32 columns by InputMode.SPARK to two nodes. And `KerasEstimator.fit` beside
`train()` of the same rows, alternating.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from _lake import float_columns, write_lake
from _report import Figure, figure, report
from dataframe import install_peer, tensorflowonspark
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from rich.console import Console

from sparktf import train
from sparktf.config.job import JobConfig
from sparktf.driver.plan.planner import plan_source
from sparktf.feature import Feature
from sparktf.feed.arrays.memory import SpareMemory
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.example_writer import record_bytes
from sparktf.feed.pipeline import NodeFeed
from sparktf.ml import KerasEstimator
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

BATCH, RUNS = 1024, 5
_memory: dict[tuple[Feature, ...], SpareMemory] = {}
"""It stays with a process from pass to pass, as with a trainer from epoch to epoch."""

FLOATS = [f"x{i}" for i in range(17)]


def tables(draw: np.random.Generator) -> dict[str, pa.Table]:
    """Returns rows of each kind; all have a label y."""
    n = 400_000
    labels = draw.integers(0, 10, n)
    wide = {name: draw.random(n, np.float32) for name in FLOATS}
    few = {"id": np.arange(n), "a": wide["x0"], "b": wide["x1"], "s": [f"name{i % 1000}" for i in range(n)]}
    images = pa.FixedSizeListArray.from_arrays(pa.array(draw.random(40_000 * 784, np.float32)), 784)
    return {
        "17 floats": pa.table({**wide, "y": labels}),
        "an id, 2 floats, a text": pa.table({**few, "y": labels}),
        "784 floats in a list": pa.table({"image": images, "y": labels[:40_000]}),
    }


INPUTS: dict[str, dict[str, Any]] = {
    "17 floats": {"x": FLOATS},
    "an id, 2 floats, a text": {"id": "id", "x": ["a", "b"], "s": "s"},
    "784 floats in a list": {"image": {"columns": "image", "shape": [784]}},
}


def by_feed(folder: str, name: str) -> float:
    """Returns the rows per second that come out of our feed."""
    config = JobConfig.model_validate(
        {
            "name": "bench",
            "model": "m:build",
            "output": {"path": "/nowhere"},
            "data": {
                "path": folder,
                "format": "tfrecord",
                "inputs": INPUTS[name],
                "targets": {"y": "y"},
                "shuffle": False,
            },
        }
    )
    plan = plan_source(config, open_storage, lambda *_: [])
    (share,) = plan.assignments(Stream.TRAIN, 0, [(0, plan.rows(Stream.TRAIN))], [""], rebalance=True)
    memory = _memory.setdefault(plan.spec.features, SpareMemory(plan.spec.features))
    rows, began_s = 0, time.monotonic()
    with NodeFeed(plan.spec, PlannedParts(plan.spec, share, open_storage), memory) as feed:
        while n := len(feed.next_rows(BATCH)["target:y"]):
            rows += n
    return rows / (time.monotonic() - began_s)


def by_tf_data(folder: str, name: str) -> float:
    """Returns the rows per second that come out of tf.data."""
    import tensorflow as tf  # noqa: PLC0415 - of the process that measures

    one = tf.io.FixedLenFeature
    spec: dict[str, Any] = {
        "17 floats": {column: one([], tf.float32) for column in FLOATS},
        "an id, 2 floats, a text": {
            "id": one([], tf.int64),
            "a": one([], tf.float32),
            "b": one([], tf.float32),
            "s": one([], tf.string),
        },
        "784 floats in a list": {"image": one([784], tf.float32)},
    }[name]
    spec["y"] = one([], tf.int64)
    files = sorted(str(path) for path in Path(folder).iterdir())
    dataset = tf.data.TFRecordDataset(files).batch(BATCH).map(lambda batch: tf.io.parse_example(batch, spec))
    rows, began_s = 0, time.monotonic()
    for batch in dataset:
        rows += int(batch["y"].shape[0])
    return rows / (time.monotonic() - began_s)


def tfrecords(runs: int, root: Path) -> list[Figure]:
    """Measures TFRecord files."""
    figures: list[Figure] = []
    core = max(os.sched_getaffinity(0))
    spawn = get_context("spawn")
    with (
        ProcessPoolExecutor(1, spawn, os.sched_setaffinity, (0, {core})) as ours,
        ProcessPoolExecutor(1, spawn, os.sched_setaffinity, (0, {core})) as theirs,
    ):
        for name, table in tables(np.random.default_rng(0)).items():
            folder = root / str(len(figures))
            folder.mkdir()
            for i in range(4):
                part = table.slice(i * len(table) // 4, len(table) // 4).combine_chunks().to_batches()
                (folder / f"part-r-{i:05d}").write_bytes(b"".join(bytes(record_bytes(batch)) for batch in part))
            rates: list[tuple[float, float]] = []
            for run in range(runs + 1):
                pair = (
                    ours.submit(by_feed, str(folder), name).result(),
                    theirs.submit(by_tf_data, str(folder), name).result(),
                )
                rates += [pair] if run else []  # the first warms the page cache, and each process's memory
            figures += [
                figure(f"{name}: tf.data with parse_example, one core", [t / 1e6 for _, t in rates], unit="M rows/s"),
                figure(f"{name}: feed / tf.data", [o / t for o, t in rates], unit="ratio", goal=">= 1.0"),
            ]
            print(f"{name}: {figures[-1].value:.2f}", file=sys.stderr, flush=True)
    return figures


def scripts(runs: int, root: Path) -> list[Figure]:
    """Measures a script of TensorFlowOnSpark's."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(Path(pyspark.__file__).parent))
    packages = root / "peer"
    install_peer(packages)
    # The peer would take minutes for the larger one; ours is through the smaller one before it is at speed.
    large, small = (write_lake(root / f"fed-{rows}", float_columns(rows)) for rows in (2_000_000, 60_000))
    rates = []
    for _ in range(runs):
        rates.append((tensorflowonspark(large, None, root), tensorflowonspark(small, packages, root)))
        print("script: {:,.0f} and {:,.0f} rows/s".format(*rates[-1]), file=sys.stderr, flush=True)
    return [
        figure("script on TensorFlowOnSpark", [theirs / 1e3 for _, theirs in rates], unit="k rows/s"),
        figure("script on sparktf", [ours / 1e3 for ours, _ in rates], unit="k rows/s"),
        figure("script: sparktf / TensorFlowOnSpark", [o / t for o, t in rates], unit="ratio", goal=">= 20"),
    ]


def build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """Returns a small model."""
    import keras  # noqa: PLC0415 - in the trainers

    x = keras.Input((16,), name="features")
    hidden = keras.layers.Dense(64, "relu")(x)
    model = keras.Model(x, keras.layers.Dense(1, name="label")(hidden))
    model.compile("sgd", "mse")
    return model


def fits(runs: int, root: Path) -> list[Figure]:
    """Measures `KerasEstimator.fit` beside `train()` of the same rows and settings, alternating."""
    rows, epochs, batch = 1_000_000, 3, 4096
    folder = write_lake(root / "fitted", float_columns(rows))
    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    columns = [f"x{i}" for i in range(16)]
    assembled = VectorAssembler(inputCols=columns, outputCol="features").transform(spark.read.parquet(str(folder)))
    df = assembled.select("features", sql.col("y").alias("label"))
    estimator = KerasEstimator(model=build, numWorkers=2, epochs=epochs, batchSize=batch, outputPath=str(root / "ml"))
    given: dict[str, Any] = {
        "inputs": {"features": {"columns": "features", "shape": [16]}},
        "targets": {"label": "label"},
        "output": str(root / "runs"),
    }
    ratios: list[float] = []
    seconds: list[float] = []
    for run in range(runs + 1):
        began_s = time.monotonic()
        train(spark, df, model=build, workers=2, epochs=epochs, batch_size=batch, **given, console=_quiet())
        between_s = time.monotonic()
        estimator.fit(df)
        ended_s = time.monotonic()
        if run:  # the first one compiles Spark's code
            seconds.append(between_s - began_s)
            ratios.append((ended_s - between_s) / (between_s - began_s))
            print(f"train() {seconds[-1]:.1f} s, fit / train() {ratios[-1]:.2f}", file=sys.stderr, flush=True)
    spark.stop()
    return [
        figure("train(), 1 M rows, 3 epochs", seconds, unit="s"),
        figure("KerasEstimator.fit / train()", ratios, unit="ratio", goal="<= 1.1"),
    ]


def _quiet() -> Console:
    return Console(file=io.StringIO())


def main() -> None:
    """Measures and reports."""
    runs = int(os.environ.get("RUNS", RUNS))
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        report("compat", [*tfrecords(runs, Path(root)), *scripts(runs, Path(root)), *fits(runs, Path(root))])


if __name__ == "__main__":
    main()
