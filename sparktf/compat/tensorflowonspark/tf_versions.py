"""TensorFlowOnSpark's helpers over differences between versions of TensorFlow."""

from __future__ import annotations

import importlib
import traceback
from typing import Any

_OLDER = (
    "If this program was written for Keras 2, it runs by tf_keras as it is: install tf_keras, and set "
    "TF_USE_LEGACY_KERAS=1 in the driver's environment and in that of executors "
    "(spark.executorEnv.TF_USE_LEGACY_KERAS=1)"
)

_HDFS = (
    "Today's TensorFlow itself reads and writes no HDFS: let Spark feed the rows (InputMode.SPARK), read files by "
    "pyarrow.fs, write to a folder of the node and copy it (hdfs dfs -put), or import tensorflow-io, if there is one "
    "for this TensorFlow"
)
_ESTIMATOR = (
    "TensorFlow has no Estimators since 2.16, with TensorFlowOnSpark as here: train by Keras, or by a loop of your own"
)


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Exports a Keras model as a SavedModel: the chief's to the folder, that of others to one of their own.

    Keras 3 exports by `model.export`, tf_keras by `model.save`.
    """
    target = export_dir if is_chief else "worker_model"
    if type(model).__module__.partition(".")[0] == "keras":
        model.export(target)
    else:
        model.save(target, save_format="tf")


def disable_auto_shard(options: Any) -> None:
    """Makes tf.data leave a dataset's rows to each worker as they are."""
    tensorflow = importlib.import_module("tensorflow")
    options.experimental_distribute.auto_shard_policy = tensorflow.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Whether TensorFlow sees a graphics processor."""
    return bool(importlib.import_module("tensorflow").config.list_physical_devices("GPU"))


def note_habits(error: BaseException) -> None:
    """Adds to an error of what has changed since TensorFlowOnSpark's programs were written what to do instead."""
    said = str(error)
    if "File system scheme 'hdfs' not implemented" in said:
        error.add_note(_HDFS)
    if isinstance(error, AttributeError) and "'estimator'" in said:
        error.add_note(_ESTIMATOR)
    _note_keras(error)


def _note_keras(error: BaseException) -> None:
    """Adds to an error that came through Keras 3 how a program of Keras 2 runs: most of TensorFlowOnSpark's are."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(module.partition(".")[0] == "keras" for module in modules):
        error.add_note(_OLDER)
