"""A Keras model trained by `fit` with MultiWorkerMirroredStrategy on files that the workers read themselves.

The chief's callback writes for the TensorBoard that `tensorboard=True` has started.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def main_fun(args: Any, ctx: Any) -> None:
    """Trains a line from its own file of each two, all rows at once; the chief's export counts."""
    import tensorflow as tf
    import tf_keras
    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = ctx.executor_id
    lines = tf.data.TextLineDataset(ctx.absolute_path(f"{args.output}/part-{rank}.csv"))
    rows = lines.map(lambda line: tf.strings.to_number(tf.strings.split(line, ",")))
    dataset = rows.map(lambda row: (row[:2], row[2:])).batch(args.rows // ctx.num_workers).repeat()
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
        model.compile(tf_keras.optimizers.SGD(0.1), "mse")
    board = [tf_keras.callbacks.TensorBoard(f"{args.output}/logs")] if ctx.job_name == "chief" else []
    model.fit(dataset.with_options(options), steps_per_epoch=5, epochs=2, verbose=0, callbacks=board)
    compat.export_saved_model(model, ctx.absolute_path(f"{args.output}/export"), ctx.job_name == "chief")
    told = {
        "job": ctx.job_name,
        "rank": rank,
        "replicas": strategy.num_replicas_in_sync,
        "processors": not compat.is_gpu_available(),
        "weights": [float(value) for array in model.get_weights() for value in array.ravel()],
    }
    Path(args.output, f"node-{rank}.json").write_text(json.dumps(told))


def answer(url: str) -> Any:
    """Returns what a board says; None where there is none."""
    try:
        with urllib.request.urlopen(f"{url}/data/runs", timeout=5) as reply:
            return json.load(reply)
    except OSError:
        return None


def wait_for(url: str, expected: Any) -> bool:
    """Waits for what a board says."""
    until = time.time() + 60
    while answer(url) != expected:
        if time.time() > until:
            return False
        time.sleep(0.2)
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--output", required=True)
    parser.add_argument("--rows", type=int, default=64)
    args = parser.parse_args()
    for rank in range(args.cluster_size):
        points = [(i % 7, i % 5) for i in range(rank, args.rows, args.cluster_size)]
        lines = [f"{a},{b},{2 * a - b + 0.5}" for a, b in points]
        Path(args.output, f"part-{rank}.csv").write_text("\n".join(lines))

    sc = SparkSession.builder.getOrCreate().sparkContext
    cluster = TFCluster.run(
        sc,
        main_fun,
        args,
        args.cluster_size,
        num_ps=0,
        tensorboard=True,
        input_mode=TFCluster.InputMode.TENSORFLOW,
        log_dir=f"{args.output}/logs",
        master_node="chief",
    )
    url = cluster.tensorboard_url()
    local = f"http://localhost:{url.rpartition(':')[2]}"
    board = {"shown": wait_for(local, ["train"]), "by_url": answer(url) == ["train"]}
    cluster.shutdown()
    board["gone"] = wait_for(local, None)
    Path(args.output, "board.json").write_text(json.dumps(board))
