"""A member's connection to one peer: bytes in order, in both directions at once, without waiting."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
from contextlib import suppress
from typing import NamedTuple

from sparktf.errors import LinkCutError, PeerLostError
from sparktf.knobs import KNOBS

BUFFER_NBYTES = 4 << 20
"""Of a socket, each way: a sender is ahead of a peer that computes by this much."""

_CUT = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
"""Of a connection that neither end has closed."""

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

    def __init__(self, peer: str, sock: socket.socket | ssl.SSLSocket, *, pair: tuple[str, str]) -> None:
        """Takes over a socket that is connected and, with TLS, has shaken hands.

        Args:
            pair: The names of both members, by rank.
        """
        self.peer = peer
        self.sock = sock
        self._pair = pair
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self._is_tcp = sock.family != socket.AF_UNIX
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_NBYTES)
        if self._is_tcp:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _keepalive(KNOBS.unanswered_s).items():
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setblocking(False)

    def send(self, view: memoryview) -> tuple[int, Awaited]:
        """Sends as much as fits; returns the bytes sent, and what to wait for if these are 0.

        Raises:
            PeerLostError: the connection is closed or broken.
        """
        self._check_noted()
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
        self._check_noted()
        try:
            count = self.sock.recv_into(view)
        except (BlockingIOError, ssl.SSLWantReadError):
            return 0, READS
        except ssl.SSLWantWriteError:
            return 0, WRITES
        except OSError as error:
            raise self.lost(error) from error
        if not count and len(view):
            raise self._closed()
        return count, READS

    def check(self) -> None:
        """Checks that the network takes bytes to the peer.

        Raises:
            LinkCutError: bytes on their way were not acknowledged for `KNOBS.unanswered_s`. The kernel would send them
                again for a quarter of an hour.
        """
        if not self._is_tcp:
            return
        found = _TCP_INFO.unpack(self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
        if found[_UNACKED] and found[_LAST_ACK_MS] > KNOBS.unanswered_s * 1000:
            raise self._cut()

    def close(self) -> None:
        self.sock.close()

    def shut(self) -> None:
        """Ends the connection, from any thread: whoever waits for its bytes finds it closed."""
        with suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # TLS's own would have the rest read as plain bytes

    def _check_noted(self) -> None:
        """Checks that the kernel has noted no error: Python tells it as the peer's orderly end where there is TLS."""
        if self._is_tls and (number := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            raise self.lost(OSError(number, os.strerror(number)))

    def lost(self, why: object) -> PeerLostError:
        """Returns the error of a connection that is gone."""
        if isinstance(why, OSError) and why.errno in _CUT:
            return self._cut()
        if isinstance(why, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return self._closed()
        return PeerLostError(f"the connection to {self.peer} is lost: {why}")

    def _closed(self) -> PeerLostError:
        error = PeerLostError(f"the connection to {self.peer} is lost: it has closed the connection")
        error.closed_by = self.peer
        return error

    def _cut(self) -> LinkCutError:
        """Returns the error of a connection that the network has cut, in the same words on both sides."""
        one, other = self._pair
        why = f"the network has taken no bytes between {one} and {other} for {KNOBS.unanswered_s:g} s"
        return LinkCutError(f"{why}: {other} counts as lost")


def _keepalive(limit_s: float) -> dict[int, int]:
    """Returns TCP's settings by which a link is broken after this long a silence of the peer's kernel.

    The kernel answers also while its process computes or is stopped: so a link that is cut differs from a peer at work.
    """
    idle_s, interval_s = max(round(limit_s / 3), 1), max(round(limit_s / 8), 1)
    return {
        socket.TCP_KEEPIDLE: idle_s,
        socket.TCP_KEEPINTVL: interval_s,
        socket.TCP_KEEPCNT: max(round((limit_s - idle_s) / interval_s), 1),
    }
