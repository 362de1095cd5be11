"""TensorFlowOnSpark's TFModel over a table, to nowhere, in a process of its own.

Usage: _tfmodel.py FOLDER SAVED_MODEL OUTPUT COLUMNS OUT. Writes rows and seconds to OUT as JSON; the second of two
passes counts, since the first one loads the model.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(folder: str, model: str, output: str, columns: int, out: Path) -> None:
    """Scores the table."""
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql import functions as sql  # noqa: PLC0415
    from tensorflowonspark import pipeline  # noqa: PLC0415

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    df = spark.read.parquet(folder).select(sql.array(*(f"x{i}" for i in range(columns))).alias("x"))
    stage = pipeline.TFModel({}).setInputMapping({"x": "x"}).setOutputMapping({output: "prediction"}).setBatchSize(4096)
    stage = stage.setExportDir(model).setSignatureDefKey("serving_default").setTagSet("serve")
    seconds = 0.0
    for _ in range(2):
        began_s = time.perf_counter()
        stage.transform(df).write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began_s
    out.write_text(json.dumps({"rows": df.count(), "seconds": seconds}))
    spark.stop()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
