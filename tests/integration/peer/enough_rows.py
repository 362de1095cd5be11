"""More epochs than anybody wants: the nodes take what they need from a queue with another name, and end it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def main_fun(args: Any, ctx: Any) -> None:
    """Takes some rows and no more."""
    feed = ctx.get_data_feed(qname_in="more", input_mapping={"b": "second", "a": "first"})
    batches = [feed.next_batch(10) for _ in range(3)]
    feed.terminate()
    told = [[sorted(batch), len(batch["first"]), len(batch["second"])] for batch in batches]
    matched = all(2 * a == b for batch in batches for a, b in zip(batch["first"], batch["second"], strict=True))
    Path(args.output, f"node-{ctx.executor_id}.json").write_text(json.dumps({"batches": told, "matched": matched}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    mode, queues = TFCluster.InputMode.SPARK, ["input", "more", "output", "error"]
    cluster = TFCluster.run(sc, main_fun, args, args.cluster_size, 0, input_mode=mode, queues=queues)
    cluster.train(sc.parallelize([(i, 2 * i) for i in range(100)], 2), qname="more")
    cluster.shutdown()
