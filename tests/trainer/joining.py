"""What follows in TensorFlow from workers that are lost, with servers in place of them: runs where TensorFlow is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.eager import context

from sparktf.errors import NodeLostError
from sparktf.knobs import KNOBS
from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.membership.doors import StandIns
from sparktf.trainer.parameter_server.membership.succession import Succession
from sparktf.wire.control import WorkerPlace

WORKERS = tuple(NodeId(role=Role.WORKER, index=i) for i in range(2))
WITHIN_S = 20.0


class Worker:
    """TensorFlow's thread for a worker, as far as `Succession` knows it."""

    def __init__(self) -> None:
        self._is_dead_with_error: Any = None

    def _process_closure(self, closure: threading.Event) -> None:
        """Executes until the test says that it is over."""
        closure.wait(WITHIN_S)


class Cluster:
    """TensorFlow's cluster of two workers, as far as `Succession` knows it.

    Attributes:
        sent: The addresses of both, each time that the definition was sent.
        back: Executions that were put back.
        failures: What the coordinator has failed with.
        address: Of the first worker.
    """

    def __init__(self, address: str = "") -> None:
        """Begins with the two.

        Args:
            address: Of the first; a server of its own where there is none.
        """
        self.workers = [Worker() for _ in WORKERS]
        self.closure_queue = self.failure_handler = self._cluster = self
        self.back: list[Any] = []
        self.put_back = self.back.append
        self._cluster_due_for_update_or_finish = threading.Event()
        self.address = address or serve()
        addresses = zip(WORKERS, (self.address, serve()), strict=True)
        self.places = {node: WorkerPlace(node=node, incarnation=0, address=address) for node, address in addresses}
        self.sent: list[list[str]] = []
        self.failures: list[BaseException] = []
        context.context().update_server_def = lambda definition: self.sent.append(list(definition.cluster.job[0].tasks))
        stand_ins, seated = StandIns("127.0.0.1"), list(self.places.values())
        self.succession = Succession(
            self, lambda: self.places, stand_ins, seated, fail=self.failures.append, stop_s=0.0
        )
        self.succession.take_over()

    def lose(self, worker: int) -> None:
        """TensorFlow and the driver lose a worker."""
        self.workers[worker]._is_dead_with_error = ConnectionError("Socket closed")
        self.place(worker, 1)

    def place(self, worker: int, incarnation: int, **more: Any) -> None:
        """The driver tells who has a place."""
        self.places[WORKERS[worker]] = WorkerPlace(node=WORKERS[worker], incarnation=incarnation, **more)

    def reunite(self) -> None:
        """TensorFlow sends the definition, and then knows of nobody lost."""
        context.context().update_server_def(Definition())
        for worker in self.workers:
            worker._is_dead_with_error = False

    def execute(self, worker: int) -> threading.Event:
        """Has a thread of TensorFlow's execute something; returns what ends it."""
        closure = threading.Event()
        threading.Thread(target=self.workers[worker]._process_closure, args=(closure,), daemon=True).start()
        return closure


class Definition:
    """The cluster's definition, as far as `Succession` knows it."""

    def __init__(self) -> None:
        self.name, self.tasks = "worker", ["gone:1", "gone:1"]
        self.cluster, self.job = self, [self]


class StoodIn(NamedTuple):
    """What becomes of a place that nobody takes.

    Attributes:
        others: Whether the address of the worker that lives is sent each time.
        stand_in: Whether that of a server of this process was, first.
        late: Whether it was the late worker's at last.
        put_back: Whether the place left executions to others while the stand-in had it.
        executes: Whether it executes again.
    """

    others: bool
    stand_in: bool
    late: bool
    put_back: bool
    executes: bool


def two_lost_at_once() -> tuple[list[list[str]], float]:
    """Returns which addresses are sent for two workers that are lost at once, each time, and how long all of it takes.

    TensorFlow would send the definition once for the first that it has noticed, and once more for the second.
    """
    cluster, addresses = Cluster(), [serve() for _ in WORKERS]
    for index, address in enumerate(addresses):
        cluster.lose(index)
        cluster.place(index, 1, address=address)
    began_s = time.monotonic()
    for worker in cluster.workers:
        context.context().update_server_def(Definition())
        worker._is_dead_with_error = False
    return [addresses, *cluster.sent], time.monotonic() - began_s


def stood_in() -> StoodIn:
    """Has nobody follow a lost worker for a while."""
    cluster, late = Cluster(), serve()
    living = cluster.places[WORKERS[0]].address
    cluster.lose(1)
    cluster.place(1, 1, stand_in=True)
    cluster.reunite()
    closure = cluster.execute(1)
    _wait("what the stand-in left", lambda: closure in cluster.back)

    cluster.place(1, 1, address=late)
    assert cluster._cluster_due_for_update_or_finish.wait(WITHIN_S)
    cluster.reunite()
    cluster.execute(1)
    _wait("an execution", lambda: cluster.succession._doors[1].call is not None)
    (one, two), (other, last) = cluster.sent
    return StoodIn(
        others=(one, other) == (living, living),
        stand_in=two.startswith("127.0.0.1:") and two not in (living, late),
        late=last == late,
        put_back=cluster.back == [closure],
        executes=True,
    )


def broken_off() -> tuple[dict[tuple[NodeId, int], int], int]:
    """Returns which executions count as broken off, of one that TensorFlow puts back and others, and how many wait."""
    cluster = Cluster()
    closures = [cluster.execute(worker) for worker in (0, 1)]
    _wait("two executions", lambda: all(door.call is not None for door in cluster.succession._doors))
    cluster.put_back(closures[1])
    cluster.put_back(threading.Event())  # which nobody was at
    for closure in closures:
        closure.set()
    return dict(cluster.succession.broken_off), len(cluster.back)


def cut_off(*, is_over: bool) -> tuple[str, str]:
    """Returns what a call to a lost worker fails with that never ends, and the address that it was to.

    Args:
        is_over: The host can be reached again; else it says nothing, although the kernel takes connections.
    """
    with _quick(), socket.create_server(("127.0.0.1", 0)) as host:
        cluster = Cluster("" if is_over else f"127.0.0.1:{host.getsockname()[1]}")
        closures = [cluster.execute(0), cluster.execute(1)]
        cluster.place(0, 1)
        said = _failure(cluster)
    for closure in closures:
        closure.set()
    return said, cluster.address


def lost_in_sending() -> tuple[str, str]:
    """Returns what the coordinator fails with where a worker is lost that is sent the definition, and its address."""
    cluster, over = Cluster(), threading.Event()
    cluster.succession._send = lambda definition: over.wait(WITHIN_S)
    with _quick():
        cluster.lose(1)
        cluster.place(1, 1, stand_in=True)
        threading.Thread(target=cluster.reunite, daemon=True).start()
        _wait("the definition is sent", cluster.succession.sending.locked)
        cluster.place(0, 1)
        said = _failure(cluster)
    over.set()
    return said, cluster.address


def lost_while_idle(*, says_gone: bool) -> tuple[list[str], str]:
    """Returns what the coordinator fails with where a worker is lost that executes nothing, and its address.

    Args:
        says_gone: Its host does, to who asks twice; else it says nothing, although the kernel takes connections.
    """
    with _quick(), socket.create_server(("127.0.0.1", 0)) as host:
        host.settimeout(WITHIN_S)
        cluster = Cluster(f"127.0.0.1:{host.getsockname()[1]}")
        cluster.place(0, 1)
        if not says_gone:
            return [_failure(cluster)], cluster.address
        for _ in range(2):
            host.accept()[0].close()
        return [str(failure) for failure in cluster.failures], cluster.address


@contextmanager
def _quick() -> Iterator[None]:
    """What is gone is taken for cut off after half a second."""
    before_s, KNOBS.reconnect_s = KNOBS.reconnect_s, 0.5
    try:
        yield
    finally:
        KNOBS.reconnect_s = before_s


def _failure(cluster: Cluster) -> str:
    """Waits for what the coordinator fails with."""
    _wait("an error", lambda: bool(cluster.failures))
    (failure,) = cluster.failures
    assert isinstance(failure, NodeLostError), failure
    return str(failure)


def serve() -> str:
    """Starts a worker's server; returns its address."""
    server = tf.distribute.Server({"worker": ["127.0.0.1:0"]}, job_name="worker", task_index=0)
    _SERVERS.append(server)
    return f"127.0.0.1:{server.target.rpartition(':')[2]}"


_SERVERS: list[Any] = []


def _wait(what: str, holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError(what)
        time.sleep(0.01)
