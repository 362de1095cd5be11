"""What follows in TensorFlow from workers that are lost, with servers in place of them: runs where TensorFlow is."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.succession import Succession
from sparktf.wire.control import WorkerPlace

WORKERS = tuple(NodeId(role=Role.WORKER, index=i) for i in range(2))


def two_lost_at_once() -> tuple[list[list[str]], float]:
    """Returns which addresses are sent for two workers that are lost at once, each time, and how long all of it takes.

    TensorFlow would send the definition once for the first that it has noticed, and once more for the second.
    """
    sent: list[list[str]] = []
    servers = [tf.distribute.Server({"worker": ["127.0.0.1:0"]}, job_name="worker", task_index=0) for _ in WORKERS]
    ports = [server.target.rpartition(":")[2] for server in servers]
    places = {node: WorkerPlace(node=node, incarnation=0, address="gone:1") for node in WORKERS}
    workers = [SimpleNamespace(_is_dead_with_error=None) for _ in WORKERS]
    coordinator = SimpleNamespace(_cluster=SimpleNamespace(workers=workers))
    context.context().update_server_def = lambda definition: sent.append(list(definition.cluster.job[0].tasks))
    Succession(coordinator, lambda: places).take_over()

    for worker, node, port in zip(workers, WORKERS, ports, strict=True):
        worker._is_dead_with_error = ConnectionError("Socket closed")
        places[node] = WorkerPlace(node=node, incarnation=1, address=f"127.0.0.1:{port}")
    began_s = time.monotonic()
    for worker in workers:
        context.context().update_server_def(_definition())
        worker._is_dead_with_error = False
    took_s = time.monotonic() - began_s
    return [ports, *[[at.rpartition(":")[2] for at in each] for each in sent]], took_s


def _definition() -> Any:
    return SimpleNamespace(cluster=SimpleNamespace(job=[SimpleNamespace(name="worker", tasks=["gone:1", "gone:1"])]))
