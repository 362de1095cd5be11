"""The replacement of TensorFlowOnSpark's reservation server while its `TFCluster` reserves executors for a run.

The package's own listens on all interfaces and unpickles every message from anybody: it runs the code of all who reach
its port. Here nodes call the run's control server instead, as everything of the run does: with its secret, in JSON,
over mutual TLS or a unix socket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any

from sparktf.errors import NodeLostError, RefusedError, ReservationError
from sparktf.executor.reservation import ReservationClient, reservation_of
from sparktf.told import first_line_of
from sparktf.wire.reserving import ReservedNode, ReservedNodes, ReserveRequest
from sparktf.wire.security import ControlAccess

_LOOK_S = 1.0


class Reservations:
    """The nodes of one cluster of the package's, as they come; thread-safe."""

    def __init__(self, count: int) -> None:
        """Expects `count` nodes."""
        self._count = count
        self._changed = threading.Condition()
        self._nodes: dict[int, ReservedNode] = {}

    def reserve(self, request: ReserveRequest) -> ReservedNodes:
        """Answers a node. One that Spark has started again takes its own place.

        Raises:
            RefusedError: there is no node of that number.
        """
        with self._changed:
            if (node := request.node) is not None:
                if not 0 <= node.executor_id < self._count:
                    raise RefusedError(f"there is no node {node.executor_id}")
                self._nodes[node.executor_id] = node
                self._changed.notify_all()
            return ReservedNodes(nodes=tuple(self._nodes.values()), is_whole=len(self._nodes) == self._count)

    def wait(self, status: Mapping[str, Any], limit_s: float) -> list[ReservedNode]:
        """Returns the nodes once all have come.

        Args:
            status: Has an "error" if the package's job has failed.

        Raises:
            NodeLostError: it has.
            ReservationError: they did not come in time.
        """
        deadline_s = time.monotonic() + limit_s
        with self._changed:
            while len(self._nodes) < self._count:
                if "error" in status:
                    raise NodeLostError(first_line_of(str(status["error"]), "its job failed"))
                if time.monotonic() > deadline_s:
                    raise ReservationError(f"only {len(self._nodes)} of {self._count} nodes came within {limit_s:g} s")
                self._changed.wait(_LOOK_S)
            return list(self._nodes.values())


class ReservationServer:
    """The part of `reservation.Server` that `tensorflowonspark.TFCluster` uses; does not listen itself.

    Attributes:
        done: Whether a node has asked all to stop, which none of ours does.
    """

    done = False

    def __init__(self, reservations: Reservations, access: ControlAccess) -> None:
        """See `Reservations`; nodes reach them by `access`."""
        self._reservations = reservations
        self._access = access

    def start(self) -> ControlAccess:
        """Returns the access that the package carries to its nodes, for their client."""
        return self._access

    def await_reservations(self, sc: Any, status: Mapping[str, Any], timeout: float) -> list[dict[str, Any]]:
        """Returns the nodes, as the package knows them. Raises as `Reservations.wait`."""
        del sc
        return [reservation_of(node) for node in self._reservations.wait(status, timeout)]

    def stop(self) -> None:
        """Has nothing to end."""


def reserving(cluster: Any, node: Any, reservations: Reservations, access: ControlAccess) -> Callable[..., Any]:
    """Returns the package's `TFCluster.run`, which uses our server and client.

    They are bound in copies of the package's functions: other users of the package in this process are not affected.

    Args:
        cluster: The module `tensorflowonspark.TFCluster`.
        node: The module `tensorflowonspark.TFSparkNode`.
    """
    server = SimpleNamespace(Server=lambda count: ReservationServer(reservations, access))
    client = SimpleNamespace(Client=ReservationClient)
    on_node = SimpleNamespace(run=_bound(node.run, reservation=client))
    return _bound(cluster.run, reservation=server, TFSparkNode=on_node)


def _bound(function: Any, **names: Any) -> Callable[..., Any]:
    """Returns a copy of a function, and so of those defined in it, with other values for some global names."""
    found = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)
    found.__defaults__, found.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    found.__qualname__, found.__module__ = function.__qualname__, function.__module__
    return found
