"""Updates of a variable on a parameter server, which the chief deals out by `ParameterServerStrategy`."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def main_fun(args: Any, ctx: Any) -> None:
    """Is what its job says."""
    import tensorflow as tf

    total, told = Path(args.output, "total.json"), Path(args.output, f"{ctx.job_name}-{ctx.task_index}.json")
    config = json.loads(os.environ["TF_CONFIG"])
    jobs = {job: len(addresses) for job, addresses in config["cluster"].items()}
    who = {"task": config["task"], "jobs": jobs, "workers": ctx.num_workers, "number": ctx.executor_id}
    told.write_text(json.dumps(who))
    assert ctx.tmp_socket.getsockname()[1] == int(ctx.cluster_spec[ctx.job_name][ctx.task_index].rpartition(":")[2])
    ctx.release_port()
    assert ctx.tmp_socket is None
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if ctx.job_name in ("worker", "ps"):
        server = tf.distribute.Server(resolver.cluster_spec(), ctx.job_name, ctx.task_index, protocol="grpc")
        if ctx.job_name == "ps":
            server.join()
        while not total.exists():
            time.sleep(0.1)
        return
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        value = tf.Variable(0.0)

    @tf.function  # type: ignore[untyped-decorator]
    def update() -> Any:
        value.assign_add(1.0)
        return 0

    for _ in range(20):
        coordinator.schedule(update)
    coordinator.join()
    part = total.with_suffix(".part")
    part.write_text(json.dumps(float(value.numpy())))
    part.rename(total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=3)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    sc = SparkSession.builder.getOrCreate().sparkContext
    cluster = TFCluster.run(
        sc,
        main_fun,
        args,
        args.cluster_size,
        num_ps=1,
        input_mode=TFCluster.InputMode.TENSORFLOW,
        driver_ps_nodes=True,
        master_node="chief",
        release_port=False,
    )
    cluster.shutdown()
