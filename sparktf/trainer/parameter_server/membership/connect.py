"""Connects the coordinator to the cluster, and places variables on the parameter servers.

TensorFlow first connects to all nodes, and a call to one that does not answer never returns. So connect only once each
answers at its current address: a worker that was lost meanwhile has a successor elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.errors import NodeLostError
from sparktf.knobs import KNOBS
from sparktf.topology import ClusterSpec, NodeId
from sparktf.trainer.node.place import Place
from sparktf.trainer.parameter_server.membership.knocking import all_answer
from sparktf.trainer.parameter_server.membership.seats import Call, are_there, is_cut_off
from sparktf.trainer.parameter_server.membership.succession import Succession, look_after_workers
from sparktf.wire.control import WorkerPlace

Workers = Callable[[], Mapping[NodeId, WorkerPlace]]
"""Returns the current workers, in the order of their indices."""


class Connected(NamedTuple):
    """TensorFlow's strategy and coordinator of a cluster, and where its variables are placed."""

    strategy: Any
    coordinator: Any
    placement: Placement


class Connection(NamedTuple):
    """A cluster, and the succession of its workers."""

    cluster: Connected
    succession: Succession


def connect(place: Place) -> Connection:
    """Waits for all workers and parameter servers, connects to them, and brings in successors from then on.

    Call it before any other TensorFlow work in the process.

    Raises:
        PreflightError: the way successors are brought in is not known for this version of TensorFlow.
    """
    seated = _gathered(place.workers_now, place.spec.cluster.ps)
    now = place.spec.cluster.model_copy(update={"worker": tuple(worker.address for worker in seated)})
    stop_s = place.spec.config.timeouts.stop
    with _watched(seated, place.workers_now, fail=place.fail, stop_s=stop_s):
        cluster = connected_cluster(now)
    return Connection(cluster, look_after_workers(cluster.coordinator, place, seated))


def connected_cluster(addresses: ClusterSpec) -> Connected:
    """Connects to the nodes at these addresses."""
    jobs = {role: list(hosts) for role, hosts in addresses.model_dump().items()}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs), master=addresses.chief[0], task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    placement = Placement(strategy.extended, len(addresses.ps))
    return Connected(strategy, tf.distribute.coordinator.ClusterCoordinator(strategy), placement)


def _gathered(workers: Workers, servers: Sequence[str]) -> tuple[WorkerPlace, ...]:
    """Waits until all answer; returns the workers at that time. The driver limits how long that may take."""
    while True:
        seated = tuple(workers().values())
        if are_there(seated) and all_answer([*(worker.address for worker in seated), *servers]):
            return seated
        time.sleep(KNOBS.fetch_again_s)


@contextmanager
def _watched(
    seated: Sequence[WorkerPlace], workers: Workers, *, fail: Callable[[BaseException], None], stop_s: float
) -> Iterator[None]:
    """Fails from another thread if a worker is lost while TensorFlow connects to it: the call would never return."""
    done, gone_s = threading.Event(), dict[NodeId, float]()

    def look() -> None:
        now, now_s = workers(), time.monotonic()
        for place in seated:
            if now[place.node].incarnation <= place.incarnation:
                continue
            if is_cut_off(Call(place, gone_s.setdefault(place.node, now_s)), now_s, stop_s):
                raise NodeLostError(f"{place.node} at {place.address} was lost while TensorFlow connected to it")

    def run() -> None:
        try:
            while not done.wait(KNOBS.fetch_again_s):
                look()
        except Exception as error:  # noqa: BLE001 - the end of a thread: whatever it is, the driver gets it
            fail(error)

    threading.Thread(target=run, name="connecting", daemon=True).start()
    try:
        yield
    finally:
        done.set()


class Placement:
    """Puts each variable on the parameter server that holds the fewest bytes.

    TensorFlow's round robin may put a large table on one server and its bias on another. An optimizer's slots lie
    beside their variable, and count.

    Attributes:
        nbytes: Bytes on each parameter server.
    """

    def __init__(self, extended: Any, servers: int) -> None:
        """Replaces the round robin of `strategy.extended`."""
        self.nbytes = [0] * servers
        self._extended = extended
        self._create, self._in_turn = extended._create_variable, extended._create_variable_round_robin
        extended._create_variable = self._counting
        extended._create_variable_round_robin = self._on_the_emptiest

    def _counting(self, *args: Any, **kwargs: Any) -> Any:
        variable = self._create(*args, **kwargs)
        server = tf.DeviceSpec.from_string(variable.device)
        if server.job == "ps":
            self.nbytes[server.task] += variable.shape.num_elements() * variable.dtype.size
        return variable

    def _on_the_emptiest(self, *args: Any, **kwargs: Any) -> Any:
        # The strategy's round robin takes the server of this number, modulo their count.
        self._extended._variable_count = self.nbytes.index(min(self.nbytes))
        return self._in_turn(*args, **kwargs)
