"""What an engineer writes by hand in an hour: MultiWorkerMirroredStrategy over a folder of Parquet files.

Each worker reads its share of the files through pyarrow, packs large batches, cuts them to its share of an update with
tf.data, and makes many updates in one call. It keeps to the files' order, leaves rows over where the workers' files
differ in rows, and saves nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STEPS_PER_CALL = 50
READ_ROWS = 65_536
COLUMNS = 16


def main(folder: Path, batch_size: int, out: Path) -> None:
    """Trains as the worker that TF_CONFIG names, and writes its times and rows to `out`."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import _mlp  # noqa: PLC0415 - TensorFlow reads its environment when imported
    import numpy as np  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    place = json.loads(os.environ["TF_CONFIG"])
    index, workers = place["task"]["index"], len(place["cluster"]["worker"])
    share = batch_size // workers
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = sorted(folder.glob("*.parquet"))
    rows = [pq.read_metadata(file).num_rows for file in files]
    steps = min(sum(rows[i::workers]) // share for i in range(workers))

    def read() -> Iterator[Any]:
        for file in files[index::workers]:
            for batch in pq.ParquetFile(file, memory_map=True).iter_batches(READ_ROWS):
                x = np.empty((batch.num_rows, COLUMNS), np.float32)
                for i in range(COLUMNS):
                    x[:, i] = batch.column(i).to_numpy()
                yield x, batch.column(COLUMNS).to_numpy()[:, None]

    def dataset(context: Any) -> Any:
        signature = (tf.TensorSpec((None, COLUMNS), tf.float32), tf.TensorSpec((None, 1), tf.float32))
        large = tf.data.Dataset.from_generator(read, output_signature=signature).prefetch(2)
        return large.rebatch(share, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    with strategy.scope():
        model = _mlp.build({}, {})
        model.optimizer.build(model.trainable_variables)

    def update(batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / float(batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def train(batches: Any, count: Any) -> Any:
        loss = tf.constant(0.0)
        for _ in tf.range(count):
            loss = strategy.reduce("SUM", strategy.run(update, args=(next(batches),)), axis=None)
        return loss

    batches = iter(strategy.distribute_datasets_from_function(dataset))
    float(train(batches, tf.constant(1)))
    first, first_cpu, done, loss = time.time(), time.process_time(), 1, 0.0
    while done < steps:
        count = min(STEPS_PER_CALL, steps - done)
        loss = float(train(batches, tf.constant(count)))
        done += count
    times = {"first": first, "end": time.time(), "cpu": time.process_time() - first_cpu}
    out.write_text(json.dumps({**times, "rows": done * share, "loss": loss}))
    os._exit(0)  # the strategy's own shutdown may wait long for its peers


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
