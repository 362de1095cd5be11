"""Squares of numbers by `TFCluster.inference`; the arguments are a command line."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def main_fun(argv: Any, ctx: Any) -> None:
    """Answers each batch of rows."""
    if sys.argv != argv:
        raise ValueError(f"the command line is {sys.argv}, not {argv}")
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(7)
        if batch:
            feed.batch_results([[number, number**2, text] for number, text in batch])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(sc, main_fun, sys.argv, args.cluster_size, num_ps=0, tensorboard=False, input_mode=mode)
    rows = sc.parallelize([(i, f"é{i}") for i in range(100)], 4)
    found = cluster.inference(rows).collect()
    cluster.shutdown()
    Path(args.output, "squares.json").write_text(json.dumps([list(row) for row in found]))
