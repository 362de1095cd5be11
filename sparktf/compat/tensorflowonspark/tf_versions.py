"""TensorFlowOnSpark's helpers over differences between versions of TensorFlow."""

from __future__ import annotations

import importlib
from typing import Any


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
