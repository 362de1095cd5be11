"""Rows of partitions of very different sizes, to nodes that do not wait for each other."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster, TFNode

SIZES = (70, 0, 3)


def main_fun(args: Any, ctx: Any) -> None:
    """Writes down all rows, and who the node is."""
    feed = ctx.get_data_feed()
    rows: list[Any] = []
    while not feed.should_stop():
        rows += feed.next_batch(8)
    config = json.loads(os.environ["TF_CONFIG"])
    told = {
        "rows": [[type(row).__name__, [repr(value) for value in row]] for row in rows],
        "who": [ctx.executor_id, ctx.worker_num, ctx.job_name, ctx.task_index, ctx.num_workers],
        "jobs": {job: len(addresses) for job, addresses in ctx.cluster_spec.items()},
        "config": {**config, "cluster": {job: len(addresses) for job, addresses in config["cluster"].items()}},
        "same": config["cluster"] == ctx.cluster_spec,
        "paths": [ctx.absolute_path(path) for path in ("hdfs://there/x", "/x")] + [TFNode.hdfs_path(ctx, "file:///x")],
        "relative": ctx.absolute_path("x").removesuffix(f"{ctx.working_dir}/x"),
    }
    Path(args.output, f"node-{ctx.executor_id}.json").write_text(json.dumps(told))


def partition(number: int, _: Any) -> Any:
    """Yields the rows of a partition."""
    first = sum(SIZES[:number])
    for i in range(first, first + SIZES[number]):
        yield i, i / 4, f"é{i}", None if i % 3 else i, [i, i + 1], bytearray(b"\xff")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    cluster = TFCluster.run(
        sc, main_fun, args, args.cluster_size, 0, input_mode=TFCluster.InputMode.SPARK, master_node="master"
    )
    keys = ("executor_id", "host", "job_name", "port", "task_index", "tb_pid", "tb_port")
    known = [all(key in node for key in keys) for node in cluster.cluster_info]
    cluster.train(sc.parallelize(range(len(SIZES)), len(SIZES)).mapPartitionsWithIndex(partition), num_epochs=2)
    cluster.shutdown()
    told = {"known": known, "url": cluster.tensorboard_url()}
    Path(args.output, "cluster.json").write_text(json.dumps(told))
