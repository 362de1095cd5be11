"""Whether somebody answers at an address, before TensorFlow is told to call there: it would wait for ever."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from enum import Enum, auto

_ANSWER_S = 1.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins, with settings of none; the server answers its own."""


class Probe(Enum):
    """What is at an address."""

    SERVER = auto()
    """A server of gRPC's that runs."""
    NOBODY = auto()
    """The host says that nobody listens, or who does breaks off."""
    NONE = auto()
    """Nothing says anything: the host cannot be reached, or who listens is frozen, for which the kernel takes
    connections, too. TensorFlow would wait for it, and the successors of all others with it.
    """


def knock(address: str) -> Probe:
    """Returns what is at an address, for which it waits a moment."""
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
    """Whether a server of gRPC's runs at each of these addresses."""
    return all(knock(address) is Probe.SERVER for address in addresses)
