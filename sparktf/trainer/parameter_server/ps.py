"""A parameter server: it holds variables, and writes and reads their files by the coordinator's orders.

Workers share its way to start TensorFlow's server, and to report that they are ready.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sparktf.trainer.model.model import versions
from sparktf.trainer.node.place import Place
from sparktf.trainer.parameter_server.checkpoint.shard import Shard
from sparktf.trainer.parameter_server.meter import ProcessMeter
from sparktf.wire.control import Ready
from sparktf.wire.data import DataAddress


def serve(place: Place) -> None:
    """Serves until the order to stop, which ends the process."""
    shard = Shard(place)
    shard.register()
    server = listen(place)
    ready(place)
    place.enter("serving")
    place.measure(ProcessMeter())
    place.leave()
    del server, shard  # they must live until here


def listen(place: Place) -> Any:
    """Starts TensorFlow's server at the node's address; it serves while the process lives."""
    tf.get_logger().setLevel("ERROR")
    spec = place.spec
    # A worker does not need the other workers' addresses, so that successors may be anywhere.
    addresses = {role: list(hosts) for role, hosts in spec.cluster.model_dump().items() if hosts}
    return tf.distribute.Server(addresses, job_name=spec.node.role.value, task_index=spec.node.index, protocol="grpc")


def ready(place: Place, data: DataAddress | None = None) -> None:
    """Tells the driver that the coordinator may connect, and the address for feeders, if Spark feeds this node."""
    message = Ready(**place.spec.sender, replicas=1, keras="none", versions=versions("none"), weights=0, data=data)
    place.ready(message)
