"""The tf.distribute strategy of a node. It must be made before any other TensorFlow work in the process."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def make_strategy(nodes: int, devices: int | None) -> Any:
    """Returns the strategy for this many nodes; the multi-worker one reads TF_CONFIG and connects to its peers here.

    A single node has `devices` replicas; None is one replica, on the device that TensorFlow chooses.
    """
    if nodes > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if devices is not None:
        return tf.distribute.MirroredStrategy(_devices(devices))
    return tf.distribute.get_strategy()


def _devices(count: int) -> list[str]:
    """Returns the first `count` GPUs, or logical CPU devices if there are fewer GPUs."""
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if len(gpus) >= count:
        return [gpu.name for gpu in gpus[:count]]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return [f"/cpu:{i}" for i in range(count)]


class Collective:
    """Sums small arrays, such as row counts or metric states, over the workers of the gang."""

    def __init__(self, strategy: Any, workers: int) -> None:
        self._strategy = strategy
        self._distributed = workers > 1
        # One trace for each shape, never a relaxed one: a collective keeps the shape of its first run.
        self._sum = tf.function(self._sum_over_workers, autograph=False)

    def sum(self, values: Any) -> Any:
        """Returns the element-wise sum of every worker's array, which must have one shape and dtype everywhere."""
        return self._sum(tf.convert_to_tensor(values)).numpy() if self._distributed else values

    def _sum_over_workers(self, values: Any) -> Any:
        def replica(x: Any) -> Any:
            # The all-reduce refuses an argument tensor itself ("destinations can not be empty").
            return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(x))

        return self._strategy.experimental_local_results(self._strategy.run(replica, args=(values,)))[0]
