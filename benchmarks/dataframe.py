"""The feeds of DataFrames and RDDs, and what they are measured against: `make bench-dataframe`.

A DataFrame over Parquet files, fed by Spark and drained to tensors by two nodes, beside Spark's own limit,
`mapInArrow` to nowhere, and the peer, TensorFlowOnSpark's InputMode.SPARK drained to NumPy on fewer rows; all on two
executors of two cores. An RDD of Rows beside the same one drained in Python. The peer's packages go into a folder of
their own.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from _lake import Schema, float_columns, int_list, write_lake
from _report import Figure, figure, report
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sparktf import JobConfig, train

EXECUTORS, CORES, RUNS = 2, 2, 5
BATCH = 8_192
TABLES = (
    # The table, and the smaller one of the peer's.
    (float_columns(4_000_000), float_columns(100_000, 12_500)),
    (int_list(160_000), int_list(8_000, 1_000)),
)
PEER = ("tensorflowonspark==2.2.5", "six", "packaging", "setuptools<81")
PEER_TIMEOUT_S = 600


def count_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that drops what it is given."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"n": pa.array([rows], pa.int64())})


def to_nowhere(spark: SparkSession, folder: Path) -> float:
    """Returns the rows per second that Spark hands to Python tasks."""
    start = time.monotonic()
    (row,) = spark.read.parquet(str(folder)).mapInArrow(count_rows, "n long").groupBy().sum("n").collect()
    return float(row[0]) / (time.monotonic() - start)


def rows_to_nowhere(rows: RDD[Any]) -> float:
    """Returns the rows per second that Spark hands to Python as objects."""
    start = time.monotonic()
    return rows.count() / (time.monotonic() - start)


def fed(spark: SparkSession, data: DataFrame | RDD[Any], table: Schema, work: Path, **options: Any) -> list[float]:
    """Returns the rows per second of each epoch, from the first node's wish for rows to the last one's last tensor."""
    times = work / f"times-{uuid.uuid4().hex[:8]}"
    times.mkdir()
    config = JobConfig.model_validate(
        {
            "name": "bench",
            "model": "_drain:train",
            "params": {"times": str(times)},
            "data": {"inputs": table.inputs, "targets": {"y": "y"}, "mode": "spark", "cache": "off", **options},
            "cluster": {"workers": EXECUTORS},
            "train": {"epochs": RUNS + 1, "batch_size": EXECUTORS * BATCH},
            "output": {"path": str(work / "runs")},
        }
    )
    train(spark, config, data, console=Console(file=io.StringIO()))
    lines = [json.loads(line) for file in times.glob("*.jsonl") for line in file.read_text().splitlines()]
    rates = []
    for epoch in range(1, RUNS + 1):
        spans = [(began_s, ended_s, rows) for number, began_s, ended_s, rows in lines if number == epoch]
        seconds = max(ended_s for _, ended_s, _ in spans) - min(began_s for began_s, _, _ in spans)
        rates.append(sum(rows for _, _, rows in spans) / seconds)
    return rates


def install_peer(folder: Path) -> None:
    """Installs the peer's packages into a folder."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), *PEER], check=True)


def tensorflowonspark(folder: Path, packages: Path, work: Path) -> float:
    """Returns the rows per second of the peer; ends the process with its output if it fails."""
    script, out = Path(__file__).with_name("_tensorflowonspark.py"), work / "peer.json"
    path = os.pathsep.join([str(packages), str(script.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(out)],
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=PEER_TIMEOUT_S,
        check=False,
    )
    if done.returncode or not out.exists():
        raise SystemExit(f"TensorFlowOnSpark ended with {done.returncode}:\n{done.stderr[-4000:]}")
    found = json.loads(out.read_text())
    return float(found["rows"] / found["seconds"])


def start_spark() -> SparkSession:
    """Returns a session whose executors have come."""
    spark = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},{CORES},2048]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) <= EXECUTORS:  # one is the driver
        time.sleep(0.3)
    return spark


def measure(table: Schema, small: Schema, packages: Path, root: Path) -> list[Figure]:
    """Measures one table. The peer has a Spark of its own, so that neither waits for the other's executors."""
    folder, few = write_lake(root / "lake", table), write_lake(root / "few", small)
    spark = start_spark()
    limits = [to_nowhere(spark, folder) / 1e3 for _ in range(RUNS + 1)][1:]
    feeds = [rate / 1e3 for rate in fed(spark, spark.read.parquet(str(folder)), table, root)]
    frame = spark.read.parquet(str(few))
    nowhere = [rows_to_nowhere(frame.rdd) / 1e3 for _ in range(RUNS + 1)][1:]
    objects = [rate / 1e3 for rate in fed(spark, frame.rdd, table, root, rdd_schema=frame.schema.simpleString()[7:-1])]
    spark.stop()
    peer = [tensorflowonspark(few, packages, root) / 1e3]
    limit, drained, theirs = (statistics.median(runs) for runs in (limits, nowhere, peer))
    return [
        figure(f"{table.name}: Spark mapInArrow to nowhere", limits, unit="k rows/s"),
        figure(f"{table.name}: DataFrame feed to tensors", feeds, unit="k rows/s"),
        figure(f"{table.name}: DataFrame feed / mapInArrow", [r / limit for r in feeds], unit="ratio", goal=">= 0.85"),
        figure(f"{table.name}: RDD drained in Python", nowhere, unit="k rows/s"),
        figure(f"{table.name}: RDD feed / drained", [r / drained for r in objects], unit="ratio", goal=">= 0.8"),
        figure(f"{table.name}: TensorFlowOnSpark to NumPy", peer, unit="k rows/s"),
        figure(
            f"{table.name}: DataFrame feed / TensorFlowOnSpark",
            [r / theirs for r in feeds],
            unit="ratio",
            goal=">= 100",
        ),
    ]


def main() -> None:
    """Measures and reports."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(Path(pyspark.__file__).parent))
    figures = []
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        packages = Path(root) / "peer"
        install_peer(packages)
        for i, (table, small) in enumerate(TABLES):
            work = Path(root) / str(i)
            work.mkdir()
            figures += measure(table, small, packages, work)
    report("dataframe", figures)


if __name__ == "__main__":
    main()
