"""A Keras model trained by `fit` with MultiWorkerMirroredStrategy on rows that Spark feeds.

Partitions are of one size, and workers make fewer steps than there are rows for: the advice of TensorFlowOnSpark's
own examples, without which its workers would wait for each other for ever.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster


def main_fun(args: Any, ctx: Any) -> None:
    """Trains a line, by tf_keras; tries Keras 3 before."""
    import keras
    import numpy as np
    import tensorflow as tf
    import tf_keras
    from tensorflowonspark import TFNode

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    told: dict[str, Any] = {"job": ctx.job_name, "replicas": strategy.num_replicas_in_sync}
    with strategy.scope():
        newer = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        newer.compile("sgd", "mse")
    try:
        newer.fit(np.ones((8, 2), np.float32), np.ones((8, 1), np.float32), batch_size=4, verbose=0)
    except ValueError as error:
        told["keras3"] = f"{type(error).__name__}: {error}".splitlines()[0]

    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
        model.compile(tf_keras.optimizers.SGD(0.3), "mse")
    feed = TFNode.DataFeed(ctx.mgr)

    def rows() -> Any:
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if not batch:
                return
            a, b, label = batch[0]
            yield np.array([a, b], np.float32), np.array([label], np.float32)

    spec = (tf.TensorSpec((2,), tf.float32), tf.TensorSpec((1,), tf.float32))
    dataset = tf.data.Dataset.from_generator(rows, output_signature=spec).batch(args.batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    history = model.fit(dataset.with_options(options), steps_per_epoch=args.steps, epochs=1, verbose=0)
    feed.terminate()
    told["falls"] = history.history["loss"][-1] < 1
    told["weights"] = [float(value) for array in model.get_weights() for value in array.ravel()]
    Path(args.output, f"node-{ctx.executor_id}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--output", required=True)
    parser.add_argument("--rows", type=int, default=400)
    args = parser.parse_args()
    args.steps = int(0.9 * args.rows * args.epochs / args.batch_size / args.cluster_size)

    sc = SparkSession.builder.getOrCreate().sparkContext
    cluster = TFCluster.run(
        sc, main_fun, args, args.cluster_size, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    points = [(i % 7 / 7, i % 5 / 5) for i in range(args.rows)]
    cluster.train(sc.parallelize([(a, b, 2 * a - b + 0.5) for a, b in points], 4), args.epochs)
    cluster.shutdown(grace_secs=1)
