"""Replaces TensorFlowOnSpark's reservation client on the nodes of its clusters.

The package's own client sends pickles without authentication; this one calls the run's control server.
"""

from __future__ import annotations

import time
from typing import Any

from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action
from sparktf.wire.reserving import ReservedNode, ReservedNodes, ReserveRequest
from sparktf.wire.security import ControlAccess

_PATIENCE_S = 30.0
_LOOK_S = 1.0


class ReservationClient:
    """The methods of `tensorflowonspark.reservation.Client` that its nodes call, with its dicts."""

    def __init__(self, server_addr: ControlAccess) -> None:
        """Takes the access that the package has carried here as its server's address."""
        self._client = ControlClient(server_addr)

    def register(self, reservation: dict[str, Any]) -> str:
        """Registers this node.

        Raises:
            ControlError: the driver is gone, or has no such node.
        """
        self._ask(ReserveRequest(node=node_of(reservation)))
        return "OK"

    def get_reservations(self) -> list[dict[str, Any]]:
        """Returns the nodes registered so far; raises what `register` does."""
        return [reservation_of(node) for node in self._ask(ReserveRequest()).nodes]

    def await_reservations(self) -> list[dict[str, Any]]:
        """Waits for all nodes, and returns them; raises what `register` does."""
        while not (found := self._ask(ReserveRequest())).is_whole:
            time.sleep(_LOOK_S)
        return [reservation_of(node) for node in found.nodes]

    def close(self) -> None:
        self._client.close()

    def _ask(self, request: ReserveRequest) -> ReservedNodes:
        return self._client.call_patiently(Action.RESERVE, request, ReservedNodes, patience_s=_PATIENCE_S)


def node_of(reservation: dict[str, Any]) -> ReservedNode:
    """Converts one of the package's dicts."""
    left = {key: value for key, value in reservation.items() if key not in ("addr", "authkey")}
    return ReservedNode(address=reservation["addr"], authkey=reservation["authkey"].hex(), **left)


def reservation_of(node: ReservedNode) -> dict[str, Any]:
    """Converts to the package's dict."""
    left = node.model_dump(exclude={"address", "authkey"})
    return {**left, "addr": node.address, "authkey": bytes.fromhex(node.authkey)}
