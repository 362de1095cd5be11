"""The TCP ports of a node: reserved for a TensorFlow server that starts later, or used by one of sparktf's servers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import TypeVar

from sparktf.errors import PreflightError

LOOPBACK = "127.0.0.1"
"""The host of all nodes on one machine, where our servers use unix sockets instead of ports."""

_Server = TypeVar("_Server")


def started(host: str, ports: str, start: Callable[[int | None], _Server]) -> _Server:
    """Starts a server of a node: at a free port, or without one on a single machine.

    Args:
        host: The node's, as others reach it.
        ports: See `at_free_port`.
        start: See `at_free_port`; gets None on a single machine.

    Raises:
        PreflightError: it can start at none of the ports.
    """
    return start(None) if host == LOOPBACK else at_free_port(ports, start)


def at_free_port(ports: str, start: Callable[[int], _Server]) -> _Server:
    """Starts a server at a free port of the range ("30000-30100"), or at any ("0").

    `start` gets a port, 0 for any. If it raises `OSError`, the port has just been taken, and the next one is tried.

    Raises:
        PreflightError: it can start at none of them.
    """
    failure: OSError | None = None
    for port in _free_ports(ports):
        try:
            return start(port)
        except OSError as error:
            failure = error
    raise _no_port(ports, failure) from failure


class BoundPort:
    """A port bound with SO_REUSEPORT but not listened on: it stays free for TensorFlow, which binds it too."""

    def __init__(self, ports: str = "0") -> None:
        """Binds a free port of the range ("30000-30100"), or any ("0").

        Raises:
            PreflightError: every port of the range is taken.
        """
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for port in _free_ports(ports):
            if self._bind(port):
                return
        self._socket.close()
        raise _no_port(ports)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def let_connect(self) -> None:
        """Listens on it as well, so that others can see whether they reach it; what they send is never read."""
        self._socket.listen()

    def close(self) -> None:
        self._socket.close()

    def _bind(self, port: int) -> bool:
        try:
            self._socket.bind(("", port))
        except OSError:
            return False
        return True


def _free_ports(ports: str) -> Iterator[int]:
    """Yields the free ports of a range."""
    first, _, last = ports.partition("-")
    return (port for port in range(int(first), int(last or first) + 1) if _is_free(port))


def _no_port(ports: str, failure: OSError | None = None) -> PreflightError:
    reason = "" if failure is None else f": {failure}"
    return PreflightError(f"no free port in cluster.node_ports: {ports} on {socket.gethostname()}{reason}")


def _is_free(port: int) -> bool:
    """Whether the port can be bound without SO_REUSEPORT: another agent may have bound it with that."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
