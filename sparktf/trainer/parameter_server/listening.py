"""What a worker and a parameter server have in common: TensorFlow's server of their process."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sparktf.trainer.model.model import versions
from sparktf.trainer.node.place import Place
from sparktf.wire.control import Ready
from sparktf.wire.data import DataAddress


def listen(place: Place) -> Any:
    """Starts the server, at the node's address in the cluster; it serves for as long as the process lives."""
    tf.get_logger().setLevel("ERROR")
    spec = place.spec
    # A worker has no need of the other workers' addresses, so that it does not matter where successors are.
    addresses = {role: list(hosts) for role, hosts in spec.cluster.model_dump().items() if hosts}
    return tf.distribute.Server(addresses, job_name=spec.node.role.value, task_index=spec.node.index, protocol="grpc")


def ready(place: Place, data: DataAddress | None = None) -> None:
    """Tells the driver that the coordinator may come.

    Args:
        data: Where feeders find this node, if Spark feeds it.
    """
    message = Ready(**place.spec.sender, replicas=1, keras="none", versions=versions("none"), weights=0, data=data)
    place.ready(message)
