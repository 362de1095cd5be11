"""Instances that know nothing of each other, by `TFParallel`."""

from __future__ import annotations

import argparse
import json
import logging
import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFParallel


def main_fun(args: Any, ctx: Any) -> None:
    """Writes down what it knows, and says who it is."""
    print(f"printed by node {ctx.worker_num}")
    logging.info("logged by node %d", ctx.worker_num)
    told = {
        "number": [ctx.executor_id, ctx.worker_num, ctx.num_workers],
        "distributed": "TF_CONFIG" in os.environ,
        "path": ctx.absolute_path("/x"),
        "who": [ctx.job_name, ctx.task_index, ctx.cluster_spec],
    }
    Path(args.output, f"node-{ctx.worker_num}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    TFParallel.run(sc, main_fun, args, args.cluster_size)
