"""Probes an address before TensorFlow calls it: a call to a server that does not answer never returns."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from enum import Enum, auto

_ANSWER_S = 1.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""HTTP/2's client preface and an empty SETTINGS frame; a gRPC server answers with its own settings."""


class Probe(Enum):
    """The outcome of a probe."""

    SERVER = auto()
    """A gRPC server runs there."""
    NOBODY = auto()
    """The host refuses or resets the connection."""
    NONE = auto()
    """No answer: the host is unreachable, or the process is frozen. The kernel accepts connections for a frozen
    process, so that connecting alone proves nothing.
    """


def knock(address: str) -> Probe:
    """Probes an address, for up to a second."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ANSWER_S) as connection:
            connection.sendall(_HELLO)
            return Probe.SERVER if connection.recv(1) else Probe.NOBODY
    except ConnectionError:
        return Probe.NOBODY
    except OSError:
        return Probe.NONE


def all_answer(addresses: Iterable[str]) -> bool:
    """Whether a gRPC server runs at each of these addresses."""
    return all(knock(address) is Probe.SERVER for address in addresses)
