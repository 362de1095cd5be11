"""A table in TFRecord files of the real package's `dfutil`, and of sparktf: each is read by both."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import tensorflow as tf
from pyspark.sql import DataFrame, Row, SparkSession
from tensorflowonspark import dfutil

from sparktf import tfrecords

SCHEMA = (
    "id bigint, n smallint, i int, f float, d double, s string, y binary, "
    "ns array<int>, ls array<bigint>, fs array<float>, ds array<double>"
)
ROWS = [
    (0, -5, 7, 0.5, 1.25, "é", b"\xff\x00", [1, -2], [2**40, -(2**63)], [0.5, 0.25], [1.5, 2.5]),
    (1, 0, -(2**31), -0.0, -2000.25, "", b"", [0, 0, 0], [0, 1, 2], [1.0, 2.0, 3.0], [0.0, -1.0]),
    (2, 3, 1, 3.0, -2.0, "plain", b"text", [5, 6], [7, 8], [9.0, 10.0], [11.0, 12.0]),
]


def told(df: DataFrame) -> dict[str, Any]:
    """Returns columns, types and rows of a DataFrame."""
    rows = sorted(df.select("id", *sorted(df.columns)).collect())
    return {"types": sorted(df.dtypes), "rows": [[repr(value) for value in row[1:]] for row in rows]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    theirs, ours = f"{args.output}/theirs", f"{args.output}/ours"

    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    df = spark.createDataFrame(ROWS, SCHEMA).repartition(2, "id")
    dfutil.saveAsTFRecords(df, theirs)
    tfrecords.write(df, ours)
    try:
        truth = str(dfutil.toTFExample([("truth", "boolean")])([Row(truth=True)]))
    except TypeError as error:
        truth = str(error)
    found = {
        "truth": truth,
        "given": told(df),
        "theirs by theirs": told(dfutil.loadTFRecords(sc, theirs, binary_features=["y"])),
    }
    found["ours by theirs"] = told(dfutil.loadTFRecords(sc, ours, binary_features=["y"]))

    from sparktf.compat.tensorflowonspark import tf_frames  # now `import tensorflowonspark` finds sparktf's

    found["theirs by ours"] = told(tf_frames.loadTFRecords(sc, theirs, binary_features=["y"]))
    found["ours by ours"] = told(tf_frames.loadTFRecords(sc, ours, binary_features=["y"]))
    found["theirs typed"] = told(tfrecords.read(spark, theirs, SCHEMA))
    rows, made = df.orderBy("id").collect(), {"theirs": dfutil, "ours": tf_frames}
    examples = {name: list(module.toTFExample(df.dtypes)(rows)) for name, module in made.items()}
    found["examples"] = {
        f"{name} by {reader}": [repr(row) for row in module.fromTFExample(examples[name], ["y"])]
        for name in made
        for reader, module in made.items()
    }
    example = tf.train.Example.FromString(bytes(examples["theirs"][0][0]))
    found["schemas"] = [module.infer_schema(example, ["y"]).simpleString() for module in made.values()]
    found["files"] = {
        name: sorted(path.name for path in Path(args.output, name).iterdir()) for name in ("theirs", "ours")
    }
    Path(args.output, "records.json").write_text(json.dumps(found))
