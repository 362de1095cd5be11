"""A chief that saves, and an evaluator that evaluates what was saved for as long as there is a chief."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def wait_for(path: Path) -> None:
    """Waits for a file."""
    while not path.exists():
        time.sleep(0.1)


def main_fun(args: Any, ctx: Any) -> None:
    """Saves, or evaluates."""
    config = json.loads(os.environ["TF_CONFIG"])
    jobs = {job: len(addresses) for job, addresses in config["cluster"].items()}
    told = {"task": config["task"], "jobs": jobs, "workers": ctx.num_workers, "number": ctx.executor_id}
    Path(args.output, f"{ctx.job_name}-{ctx.task_index}.json").write_text(json.dumps(told))
    for step in range(1, 1000):
        saved, evaluated = Path(args.output, f"step-{step}"), Path(args.output, f"metric-{step}")
        if ctx.job_name == "evaluator":
            wait_for(saved)
            evaluated.write_text(str(step**2))
        elif step > 3:
            return
        else:
            saved.touch()
            wait_for(evaluated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    mode = TFCluster.InputMode.TENSORFLOW
    cluster = TFCluster.run(
        sc, main_fun, args, args.cluster_size, 0, input_mode=mode, master_node="chief", eval_node=True
    )
    cluster.shutdown()
    metrics = {path.name: path.read_text() for path in Path(args.output).glob("metric-*")}
    Path(args.output, "metrics.json").write_text(json.dumps(metrics))
