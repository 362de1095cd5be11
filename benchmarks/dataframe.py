"""The feeds of DataFrames and RDDs, and what they are measured against: `make bench-dataframe`.

A DataFrame over Parquet files, fed by Spark and drained to tensors by two nodes, beside Spark's own limit,
`mapInArrow` to nowhere, and the peer, TensorFlowOnSpark's InputMode.SPARK drained to NumPy on fewer rows; all on two
executors of two cores. An RDD of Rows beside the same one drained in Python. The peer's packages go into a folder of
their own. With each goes the processor time of a row: on a machine whose cores Spark and the nodes share, it says what
the rate can be.
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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyspark
from _lake import Schema, float_columns, int_list, write_lake
from _report import Figure, figure, report
from _watch import SPARK, TRAINERS, ProcessorTime
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sparktf import JobConfig, train

EXECUTORS, CORES, RUNS = 2, 2, 5
BATCH = 8_192
TABLES = (
    # The table, the RDD's and the peer's: slower ones are smaller.
    (float_columns(8_000_000), float_columns(1_000_000), float_columns(100_000, 12_500)),
    (int_list(480_000), int_list(60_000), int_list(8_000, 1_000)),
)
PEER = ("tensorflowonspark==2.2.5", "six", "packaging", "setuptools<81")
PEER_TIMEOUT_S = 600


def count_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that drops what it is given."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"n": pa.array([rows], pa.int64())})


class Pass(NamedTuple):
    """All rows once.

    Attributes:
        rate: Thousand rows per second.
        spark_us: Processor microseconds of a row, in Spark's processes.
        trainers_us: The same in the nodes' trainers.
    """

    rate: float
    spark_us: float
    trainers_us: float

    @classmethod
    def of(cls, rows: int, start: float, stop: float, used: ProcessorTime) -> Self:
        """Returns what was seen between two times."""
        spark_s, trainers_s = (used.between(start, stop, kind) for kind in (SPARK, TRAINERS))
        return cls(rows / (stop - start) / 1e3, spark_s / rows * 1e6, trainers_s / rows * 1e6)


def to_nowhere(frame: DataFrame, used: ProcessorTime) -> Pass:
    """Has Spark hand all rows to Python tasks."""
    start = time.time()
    (row,) = frame.mapInArrow(count_rows, "n long").groupBy().sum("n").collect()
    return Pass.of(row[0], start, time.time(), used)


def rows_to_nowhere(rows: RDD[Any], used: ProcessorTime) -> Pass:
    """Has Spark hand all rows to Python as objects."""
    start = time.time()
    return Pass.of(rows.count(), start, time.time(), used)


def fed(
    spark: SparkSession, data: DataFrame | RDD[Any], table: Schema, work: Path, used: ProcessorTime, **options: Any
) -> list[Pass]:
    """Returns each epoch, from the first node's wish for rows to the last one's last tensor."""
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
    passes = []
    for epoch in range(1, RUNS + 1):
        spans = [(began_s, ended_s, rows) for number, began_s, ended_s, rows in lines if number == epoch]
        start, stop = min(began_s for began_s, _, _ in spans), max(ended_s for _, ended_s, _ in spans)
        passes.append(Pass.of(sum(rows for _, _, rows in spans), start, stop, used))
    return passes


def install_peer(folder: Path) -> None:
    """Installs the peer's packages into a folder."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), *PEER], check=True)


def tensorflowonspark(folder: Path, packages: Path | None, work: Path) -> float:
    """Returns the rows per second of the peer; ends the process with its output if it fails.

    Args:
        packages: Where it is installed; None to run the same script on sparktf in its place.
    """
    script, out = Path(__file__).with_name("_tensorflowonspark.py"), work / "peer.json"
    path = os.pathsep.join([str(packages or ""), str(script.parent), os.environ.get("PYTHONPATH", "")]).strip(
        os.pathsep
    )
    module = [] if packages is not None else ["-m", "sparktf.compat.tensorflowonspark"]
    done = subprocess.run(
        [sys.executable, *module, str(script), str(folder), str(out)],
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


def start_spark(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a session whose executors have come."""
    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},{CORES},2048]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(settings or {}),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) <= EXECUTORS:  # one is the driver
        time.sleep(0.3)
    return spark


def compared(name: str, what: tuple[str, str], limits: list[Pass], feeds: list[Pass], goal: str) -> list[Figure]:
    """Returns the figures of a feed beside its limit."""
    limit, used = statistics.median(p.rate for p in limits), statistics.median(p.spark_us for p in limits)
    nowhere, feed = (f"{name}: {text}" for text in what)
    return [
        figure(nowhere, [p.rate for p in limits], unit="k rows/s"),
        figure(feed, [p.rate for p in feeds], unit="k rows/s"),
        figure(f"{feed} / {what[0]}", [p.rate / limit for p in feeds], unit="ratio", goal=goal),
        figure(f"{nowhere}: processor time of a row", [p.spark_us for p in limits], unit="us"),
        figure(f"{feed}: processor time of a row in Spark", [p.spark_us for p in feeds], unit="us"),
        figure(f"{feed}: processor time of a row in trainers", [p.trainers_us for p in feeds], unit="us"),
        figure(
            f"{feed} / {what[0]}, by processor time",
            [used / (p.spark_us + p.trainers_us) for p in feeds],
            unit="ratio",
        ),
    ]


def measure(tables: tuple[Schema, Schema, Schema], packages: Path, root: Path) -> list[Figure]:
    """Measures one kind of table. The peer has a Spark of its own, so that neither waits for the other's executors."""
    name = tables[0].name
    table, small, few = (write_lake(root / f"lake-{i}", schema) for i, schema in enumerate(tables))
    with ProcessorTime() as used:
        spark = start_spark()
        frame, rows = spark.read.parquet(str(table)), spark.read.parquet(str(small))
        limits = [to_nowhere(frame, used) for _ in range(RUNS + 1)][1:]
        feeds = fed(spark, frame, tables[0], root, used)
        drained = [rows_to_nowhere(rows.rdd, used) for _ in range(RUNS + 1)][1:]
        objects = fed(spark, rows.rdd, tables[1], root, used, rdd_schema=rows.schema.simpleString()[7:-1])
        spark.stop()
    theirs = tensorflowonspark(few, packages, root) / 1e3
    return [
        *compared(name, ("mapInArrow to nowhere", "DataFrame feed to tensors"), limits, feeds, ">= 0.85"),
        figure(f"{name}: TensorFlowOnSpark to NumPy", [theirs], unit="k rows/s"),
        figure(
            f"{name}: DataFrame feed / TensorFlowOnSpark", [p.rate / theirs for p in feeds], unit="ratio", goal=">= 100"
        ),
        *compared(name, ("RDD drained in Python", "RDD feed to tensors"), drained, objects, ">= 0.8"),
    ]


def main() -> None:
    """Measures and reports."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(Path(pyspark.__file__).parent))
    figures = []
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        packages = Path(root) / "peer"
        install_peer(packages)
        for i, tables in enumerate(TABLES):
            work = Path(root) / str(i)
            work.mkdir()
            figures += measure(tables, packages, work)
    report("dataframe", figures)


if __name__ == "__main__":
    main()
