"""A `TFEstimator` that exports a SavedModel, and its `TFModel`, in Spark ML's way."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tensorflowonspark import pipeline


def train_fn(args: Any, ctx: Any) -> None:
    """Fits a line to the rows of its node; the chief's is exported."""
    import numpy as np
    from tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, input_mapping=args.input_mapping)
    seen: dict[str, list[Any]] = {"x": [], "y": []}
    while not feed.should_stop():
        for name, values in feed.next_batch(args.batch_size).items():
            seen[name] += values
    x, y = np.array(seen["x"], np.float32), np.array(seen["y"], np.float32)
    if ctx.job_name != "chief":
        return
    import tensorflow as tf

    module = tf.Module()
    module.w = tf.Variable(np.linalg.lstsq(x, y, rcond=None)[0][:, None])

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")]
    )
    def serve(x: Any) -> Any:
        column = x @ module.w
        return {"column": column, "text": tf.strings.as_string(tf.cast(tf.round(column[:, 0]), tf.int32))}

    tf.saved_model.save(module, args.export_dir, signatures={"serving_default": serve})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--export_dir")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    spark = SparkSession.builder.getOrCreate()
    rows = [(i, [float(i % 7), float(i % 5)], 2.0 * (i % 7) - (i % 5)) for i in range(60)]
    df = spark.createDataFrame(rows, "id bigint, features array<double>, target double").repartition(2, "id")
    estimator = (
        pipeline.TFEstimator(train_fn, args)
        .setInputMapping({"features": "x", "target": "y"})
        .setClusterSize(args.cluster_size)
        .setExportDir(f"{args.output}/model")
        .setBatchSize(16)
        .setEpochs(2)
        .setGraceSecs(3)
    )
    model = estimator.fit(df)
    model.setInputMapping({"features": "x"}).setSignatureDefKey("serving_default").setTagSet("serve")
    told = {"params": [model.getExportDir() == f"{args.output}/model", model.getBatchSize(), estimator.getEpochs()]}
    together = df.coalesce(1)  # each executor that scores loads TensorFlow
    for output in ("column", "text"):
        scored = model.setOutputMapping({output: "found"}).transform(together)
        told[output] = [scored.dtypes, [repr(row.found) for row in scored.collect()]]
    Path(args.output, "scored.json").write_text(json.dumps(told))
