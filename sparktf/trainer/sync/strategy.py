"""The tf.distribute strategy of a node. It must be made before any other TensorFlow work in the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from sparktf.errors import PreflightError
from sparktf.feed.arrays.columns import Array
from sparktf.trainer.model.exchange import ALONE, Exchange, Result
from sparktf.trainer.node.place import Place
from sparktf.trainer.sync.gradients import sum_over_replicas
from sparktf.trainer.sync.regroupings import Regroupings


def make_strategy(nodes: int, devices: int) -> Any:
    """Returns the strategy for this many nodes; that of several reads TF_CONFIG, and connects to its peers here.

    Args:
        nodes: Those whose replicas the strategy is to know: 1 where another exchange sums over nodes.
        devices: Replicas of each node. A single one is on the device that TensorFlow chooses.

    Raises:
        PreflightError: TensorFlow's strategy of several nodes finds another number of devices on this one.
    """
    if nodes > 1:
        gpus = len(tf.config.list_physical_devices("GPU"))
        if devices != max(gpus, 1):
            found = f"all {gpus} GPUs of a node" if gpus else "a node's CPU as one device"
            raise PreflightError(
                f"cluster.devices: {devices}, but TensorFlow's collectives use {found}: set cluster.devices to "
                f"{max(gpus, 1)}, or cluster.collectives to sparktf"
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    if devices > 1:
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


def exchange_of(place: Place, strategy: Any, regroupings: Regroupings) -> Exchange:
    """Returns the exchange of a node's gang, which `regroupings` meets where it is sparktf's own."""
    workers = place.spec.cluster.workers()
    if len(workers) == 1:
        return ALONE
    if place.spec.collectives == "sparktf":
        return regroupings.exchange()
    ranks = {node: rank for rank, node in enumerate(workers)}
    return CollectiveExchange(strategy, ranks[place.spec.node], len(workers), ranks[place.spec.cluster.leader])


class CollectiveExchange:
    """See `Exchange`: by TensorFlow's collectives, in functions of their own."""

    generation = 1

    def __init__(self, strategy: Any, rank: int, members: int, leader: int) -> None:
        """Takes the strategy of several workers; `leader` is a rank."""
        self.rank = rank
        self.members = members
        self.leads = rank == leader
        self._strategy = strategy
        self._local = int(strategy.num_replicas_in_sync) // members
        # One trace for each shape, never a relaxed one: a collective keeps the shape of its first run.
        self._sum = tf.function(self._sum_over_workers, autograph=False)

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return [found.numpy() for found in self._sum([tf.convert_to_tensor(array) for array in arrays])]

    def gather(self, array: Array) -> list[Array]:
        """See `Exchange`."""
        lengths = np.zeros(self.members, np.int64)
        lengths[self.rank] = len(array)
        [lengths] = self.sum([lengths])
        ends = np.cumsum(lengths)
        # One trace for each length: so a power of two. Collectives know no small integers.
        length = 1 << (int(ends[-1]) - 1).bit_length() if ends[-1] else 0
        whole = np.zeros((length, *array.shape[1:]), np.promote_types(array.dtype, np.int32))
        whole[ends[self.rank] - len(array) : ends[self.rank]] = array
        return [part.astype(array.dtype) for part in np.split(self.sum([whole])[0][: ends[-1]], ends[:-1])]

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        wide = [np.asarray(array, np.promote_types(array.dtype, np.int32)) for array in arrays]
        found = self.sum([array if self.leads else np.zeros_like(array) for array in wide])
        return [value.astype(array.dtype) for value, array in zip(found, arrays, strict=True)]

    def again(self) -> AbstractContextManager[None]:
        """See `Exchange`."""
        return nullcontext()

    def whole(self, work: Callable[[], Result], *, takes_in: bool = False) -> Result:
        """See `Exchange`."""
        del takes_in
        return work()

    def _sum_over_workers(self, values: list[Any]) -> list[Any]:
        def replica(parts: list[Any]) -> Any:
            # A node's values count once, however many replicas it has.
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            parts = [tf.where(tf.equal(index % self._local, 0), part, tf.zeros_like(part)) for part in parts]
            # The all-reduce refuses an argument tensor itself ("destinations can not be empty").
            return sum_over_replicas([tf.identity(part) for part in parts])

        found = self._strategy.run(replica, args=(values,))
        return [self._strategy.experimental_local_results(value)[0] for value in found]
