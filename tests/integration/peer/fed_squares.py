"""Squares of numbers by `TFCluster.inference`, and rows of any values; the arguments are a command line."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import RDD
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row, SparkSession
from tensorflowonspark import TFCluster


def main_fun(argv: Any, ctx: Any) -> None:
    """Answers each batch of rows."""
    if sys.argv != argv:
        raise ValueError(f"the command line is {sys.argv}, not {argv}")
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(7)
        if batch:
            feed.batch_results([answer(row) for row in batch])


def answer(row: Any) -> Any:
    """Returns a number's square, or how any other row looks, and the row."""
    if type(row) is tuple and type(row[0]) is int:
        number, text = row
        return [number, number**2, text]
    return repr(row), row


def any_rows(spark: SparkSession) -> RDD[Any]:
    """Returns rows of a DataFrame, and others that no column holds."""
    rows = [
        Row(id=i, features=Vectors.dense([i, 0.5]), of=Row(name=f"é{i}", day=date(2020, 1, 1 + i))) for i in range(3)
    ]
    others = [
        ("key", (Vectors.sparse(3, [1], [2.0]), {3})),
        {"a": {"b": [1, 2.5, (None, True)]}},
        {"a": np.float32(0.5), "c": b"c"},
        ["a", "b"],
        ["c", 2**70, Decimal("1.50"), np.arange(3)],
    ]
    return spark.createDataFrame(rows).rdd.union(spark.sparkContext.parallelize(others, 2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(sc, main_fun, sys.argv, args.cluster_size, num_ps=0, tensorboard=False, input_mode=mode)
    rows = sc.parallelize([(i, f"é{i}") for i in range(100)], 4)
    found = cluster.inference(rows).collect()
    others = any_rows(spark)
    seen, back = zip(*cluster.inference(others).collect(), strict=True)
    cluster.shutdown()
    Path(args.output, "squares.json").write_text(json.dumps([list(row) for row in found]))
    told = {"given": list(map(repr, others.collect())), "seen": seen, "back": list(map(repr, back))}
    Path(args.output, "rows.json").write_text(json.dumps(told))
