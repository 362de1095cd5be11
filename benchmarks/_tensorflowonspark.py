"""TensorFlowOnSpark's InputMode.SPARK over a table, drained to NumPy, in a process of its own.

Usage: _tensorflowonspark.py FOLDER OUT. Writes rows and seconds of `train()` to OUT as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXECUTORS, CORES, BATCH = 2, 2, 512


def drain(args: dict[str, str], context: Any) -> None:
    """A node: takes batches until there are none, and writes how many rows they had."""
    import numpy as np  # noqa: PLC0415 - runs in a Spark task, which this module's imports do not reach

    feed, rows = context.get_data_feed(train_mode=True), 0
    while not feed.should_stop():
        batch = feed.next_batch(BATCH)
        if batch and isinstance(batch[0][0], (list, tuple)):
            np.asarray([row[0] for row in batch], np.int16)
            np.asarray([row[1] for row in batch], np.int32)
        elif batch:
            np.asarray(batch, np.float32)
        rows += len(batch)
    (Path(args["out"]) / str(context.executor_id)).write_text(str(rows))


def main(folder: str, out: Path) -> None:
    """Feeds the table to two nodes."""
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from tensorflowonspark import TFCluster  # noqa: PLC0415

    spark = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},{CORES},2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.task.cpus", str(CORES))  # one node to an executor
        .config("spark.dynamicAllocation.enabled", "false")
        .config("spark.task.maxFailures", "1")
        .config("spark.sql.files.minPartitionNum", "8")
        .getOrCreate()
    )
    rows = spark.read.parquet(folder).rdd.map(tuple)
    expected = rows.count()
    with tempfile.TemporaryDirectory() as counts:
        args = {"out": counts}
        mode = TFCluster.InputMode.SPARK
        cluster = TFCluster.run(spark.sparkContext, drain, args, EXECUTORS, 0, input_mode=mode, master_node="chief")
        start = time.monotonic()
        cluster.train(rows, 1)
        seconds = time.monotonic() - start
        cluster.shutdown(grace_secs=2)
        came = sum(int(file.read_text()) for file in Path(counts).iterdir())
    if came != expected:
        raise SystemExit(f"{came} of {expected} rows came")
    out.write_text(json.dumps({"rows": came, "seconds": seconds}))
    spark.stop()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
