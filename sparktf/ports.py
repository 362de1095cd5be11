"""Holding a TCP port for a TensorFlow server that starts later."""

from __future__ import annotations

import socket

from sparktf.errors import PreflightError


class HeldPort:
    """A port bound with SO_REUSEPORT but not listened on, so that nobody else gets it until TensorFlow binds it too."""

    def __init__(self, ports: str = "0") -> None:
        """Binds a free port of the range ("30000-30100"), or any ("0").

        Raises:
            PreflightError: every port of the range is taken.
        """
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first, _, last = ports.partition("-")
        for port in range(int(first), int(last or first) + 1):
            if _is_free(port) and self._bind(port):
                return
        self._socket.close()
        raise PreflightError(f"no free port in cluster.node_ports: {ports} on {socket.gethostname()}")

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._socket.close()

    def _bind(self, port: int) -> bool:
        try:
            self._socket.bind(("", port))
        except OSError:
            return False
        return True


def _is_free(port: int) -> bool:
    """Whether the port can be bound without SO_REUSEPORT: another agent may hold it in the same way."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
