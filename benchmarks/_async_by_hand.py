"""What people write with TensorFlow's own ParameterServerStrategy and ClusterCoordinator, as its guide has it.

    _async_by_hand.py save ROWS WIDTH PARTS OUT                               one process's checkpoint of a table
    _async_by_hand.py server                                                  a worker or a ps, as TF_CONFIG says
    _async_by_hand.py FOLDER INPUT STEPS_PER_CLOSURE CLOSURES BATCH OUT       the coordinator's script

INPUT is `from_generator`, which reads the folder's Parquet files, or `made`, rows that the workers make up themselves.
Every worker reads all rows, again and again, as the guide's do; nothing is saved.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

COLUMNS = 8
READ_ROWS = 65_536


class Work(NamedTuple):
    """What a script is to do.

    Attributes:
        made: Rows are made up on the workers, instead of read from `folder`.
        steps: Updates in a closure, of `batch` rows each.
    """

    folder: Path
    made: bool
    steps: int
    closures: int
    batch: int


def serve(tf: Any) -> None:
    """Is a worker or a parameter server until somebody ends the process."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    ).join()


def save(tf: Any, shape: tuple[int, int], parts: int, out: Path) -> None:
    """Writes down how long a process takes for a checkpoint of a table in parts, beside `out`: the median of five."""
    rows, width = shape
    names = [f"part-{i}" for i in range(parts)]
    tensors = [tf.random.uniform((rows // parts, width)) for _ in names]
    seconds = []
    for i in range(5):
        began = time.perf_counter()
        tf.raw_ops.SaveV2(
            prefix=str(out.with_suffix(f".{i}")), tensor_names=names, shape_and_slices=[""] * parts, tensors=tensors
        )
        seconds.append(time.perf_counter() - began)
    out.write_text(json.dumps({"seconds": sorted(seconds)[2]}))


def rows_of(tf: Any, work: Work) -> Any:
    """Returns a dataset of batches."""
    if work.made:

        def make(number: Any) -> Any:
            x = tf.random.stateless_uniform((work.batch, COLUMNS), (0, number))
            return x, tf.cast(x[:, :1] + x[:, 1:2] > 1, tf.float32)

        return tf.data.Dataset.counter().map(make).prefetch(tf.data.AUTOTUNE)
    signature = (tf.TensorSpec((None, COLUMNS), tf.float32), tf.TensorSpec((None, 1), tf.float32))
    rows = tf.data.Dataset.from_generator(lambda: _read(work.folder), output_signature=signature)
    return rows.repeat().rebatch(work.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def _read(folder: Path) -> Iterator[Any]:
    import numpy as np  # noqa: PLC0415 - once TensorFlow has been imported
    import pyarrow.parquet as pq  # noqa: PLC0415

    for file in sorted(folder.glob("*.parquet")):
        for rows in pq.ParquetFile(file, memory_map=True).iter_batches(READ_ROWS):
            x = np.stack([rows.column(i).to_numpy() for i in range(COLUMNS)], axis=1)
            yield x, rows.column(COLUMNS).to_numpy()[:, None]


def train(tf: Any, work: Work, out: Path) -> None:
    """Trains, writes to `out` when what happened, and ends the process.

    Steps are counted from what closures return: Keras 3's `optimizer.iterations` loses updates of several workers.
    """
    import _async_models  # noqa: PLC0415

    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = _async_models.build({}, {})
        model.optimizer.build(model.trainable_variables)

    def update(batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def closure(batches: Any) -> Any:
        loss, steps = tf.constant(0.0), tf.constant(0)
        for _ in tf.range(work.steps):
            losses = strategy.run(update, args=(next(batches),))
            loss += strategy.reduce("SUM", losses, axis=None)
            steps += 1
        return loss, steps

    @tf.function  # type: ignore[untyped-decorator]
    def dataset() -> Any:
        return strategy.distribute_datasets_from_function(lambda _: rows_of(tf, work))

    batches = iter(coordinator.create_per_worker_dataset(dataset))
    coordinator.schedule(closure, args=(batches,)).fetch()
    first = time.time()
    for _ in range(4):  # every worker has been given one before the clock starts
        coordinator.schedule(closure, args=(batches,))
    coordinator.join()
    began = time.time()
    results = [coordinator.schedule(closure, args=(batches,)) for _ in range(work.closures)]
    coordinator.join()
    ended = time.time()
    steps = sum(int(result.fetch()[1]) for result in results)
    out.write_text(json.dumps({"first": first, "began": began, "ended": ended, "steps": steps}))
    os._exit(0)  # the end of what is used here hangs, where generators on the workers' behalf still run


def main(arguments: list[str]) -> None:
    """Does what the arguments say."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf  # noqa: PLC0415 - reads its environment when imported

    if arguments[0] == "server":
        serve(tf)
    if arguments[0] == "save":
        rows, width, parts, out = arguments[1:]
        save(tf, (int(rows), int(width)), int(parts), Path(out))
        return
    folder, rows, steps, closures, batch, out = arguments
    train(tf, Work(Path(folder), rows == "made", int(steps), int(closures), int(batch)), Path(out))


if __name__ == "__main__":
    main(sys.argv[1:])
