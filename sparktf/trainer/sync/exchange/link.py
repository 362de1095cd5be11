"""A member's connection to one peer: bytes in order, in both directions at once, without waiting."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import NamedTuple

from sparktf.errors import PeerLostError

BUFFER_NBYTES = 4 << 20
"""Of a socket, each way: a sender is ahead of a peer that computes by this much."""

_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 5}
"""Seconds of silence before a probe, seconds between probes, and probes without an answer until the link is broken. The
kernel answers them, also while its process computes or is stopped: they tell a link that is cut from a peer at work."""

UNANSWERED_S = 15.0
"""The same for bytes that are on their way, which the kernel would send again for a quarter of an hour."""

_TCP_INFO = struct.Struct("8B13I")
_UNACKED, _LAST_ACK_MS = 8 + 4, 8 + 12  # Fields of Linux's `struct tcp_info`


class Awaited(NamedTuple):
    """The events of a socket that a transfer waits for."""

    read: bool
    write: bool


READS, WRITES = Awaited(read=True, write=False), Awaited(read=False, write=True)


class Link:
    """One connection; for one thread.

    Attributes:
        peer: The peer's name.
        sock: The connected socket, plain or TLS.
    """

    def __init__(self, peer: str, sock: socket.socket | ssl.SSLSocket) -> None:
        """Takes over a socket that is connected and, with TLS, has shaken hands."""
        self.peer = peer
        self.sock = sock
        self._is_tcp = sock.family != socket.AF_UNIX
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_NBYTES)
        if self._is_tcp:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        sock.setblocking(False)

    def send(self, view: memoryview) -> tuple[int, Awaited]:
        """Sends as much as fits; returns the bytes sent, and what to wait for if these are 0.

        Raises:
            PeerLostError: the connection is closed or broken.
        """
        try:
            return self.sock.send(view), WRITES
        except ssl.SSLWantReadError:
            return 0, READS
        except (BlockingIOError, ssl.SSLWantWriteError):
            return 0, WRITES
        except OSError as error:
            raise self.lost(error) from error

    def receive(self, view: memoryview) -> tuple[int, Awaited]:
        """Receives what is there; returns the bytes received, and what to wait for if these are 0.

        Raises:
            PeerLostError: the connection is closed or broken.
        """
        try:
            count = self.sock.recv_into(view)
        except (BlockingIOError, ssl.SSLWantReadError):
            return 0, READS
        except ssl.SSLWantWriteError:
            return 0, WRITES
        except OSError as error:
            raise self.lost(error) from error
        if not count and len(view):
            raise self.lost("it has closed the connection")
        return count, READS

    def check(self) -> None:
        """Checks that the network takes bytes to the peer.

        Raises:
            PeerLostError: bytes on their way were not acknowledged for `UNANSWERED_S`.
        """
        if not self._is_tcp:
            return
        found = _TCP_INFO.unpack(self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
        if found[_UNACKED] and found[_LAST_ACK_MS] > UNANSWERED_S * 1000:
            raise self.lost(f"no byte has come through for {found[_LAST_ACK_MS] / 1000:.0f} s")

    def close(self) -> None:
        self.sock.close()

    def lost(self, why: object) -> PeerLostError:
        """Returns the error of a connection that is gone."""
        return PeerLostError(f"the connection to {self.peer} is lost: {why}")
