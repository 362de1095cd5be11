"""A function that raises: before, during, or after its feed; and a cluster for which there are too few executors."""

from __future__ import annotations

import argparse
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def main_fun(args: Any, ctx: Any) -> None:
    """Raises where it is told to."""
    if args.when == "before":
        raise ValueError("no luck before")
    feed = ctx.get_data_feed()
    seen = 0
    while not feed.should_stop():
        seen += len(feed.next_batch(10))
        if args.when == "during" and seen >= 20:
            raise ValueError("no luck during")
    raise ValueError("no luck after")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    parser.add_argument("--when", choices=["reserving", "before", "during", "after"], required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    nodes = 3 if args.when == "reserving" else args.cluster_size
    mode = TFCluster.InputMode.SPARK
    limit = 5 if args.when == "reserving" else 600
    cluster = TFCluster.run(sc, main_fun, args, nodes, 0, input_mode=mode, reservation_timeout=limit)
    cluster.train(sc.parallelize(range(400), 4), 2)
    cluster.shutdown(grace_secs=2)
