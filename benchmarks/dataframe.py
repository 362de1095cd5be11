"""What a DataFrame feed is measured against: `make bench-dataframe`.

Spark's own limit, `mapInArrow` to nowhere, and the peer, TensorFlowOnSpark's InputMode.SPARK drained to NumPy on fewer
rows; both on two executors of two cores. The peer's packages go into a folder of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from _lake import Schema, float_columns, int_list, write_lake
from _report import Figure, figure, report
from pyspark.sql import SparkSession

EXECUTORS, CORES, RUNS = 2, 2, 5
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
    spark.stop()
    peer = [tensorflowonspark(few, packages, root) / 1e3]
    return [
        figure(f"{table.name}: Spark mapInArrow to nowhere", limits, unit="k rows/s"),
        figure(f"{table.name}: TensorFlowOnSpark to NumPy", peer, unit="k rows/s"),
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
