"""Rendezvous of one user's processes on one machine: they find a common server, or one of them starts it."""

from __future__ import annotations

import os
import socket
import struct
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

_PEER = struct.Struct("3i")
"""The content of SO_PEERCRED: process, user and group."""


def meet(place: Path, begin: Callable[[socket.socket], None]) -> socket.socket:
    """Returns a connection to the server at a place, which one of the callers starts.

    Args:
        place: Path of a socket, in a folder that other users cannot write to.
        begin: Starts a server on a listening socket.

    Raises:
        OSError: the place cannot be used, or `begin` failed.
    """
    found = None
    while found is None:
        found = connection_to(place) or _begun(place, begin)
    return found


def connection_to(place: Path) -> socket.socket | None:
    """Returns a connection to the server at a place; None if none listens.

    Raises:
        PermissionError: the server belongs to another user.
    """
    with ExitStack() as stack:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(_short(place, stack))
            _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if user != os.getuid():
                raise PermissionError(f"the server at {place} belongs to another user (uid {user})")
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection


def forget(place: Path) -> None:
    """Removes the socket of a server that has ended, unless another server has begun there since."""
    with suppress(OSError):  # the next caller of `meet` removes it, too
        if (found := connection_to(place)) is None:
            place.unlink()
        else:
            found.close()


def _begun(place: Path, begin: Callable[[socket.socket], None]) -> socket.socket | None:
    """Starts a server at a place, unless another process was quicker; returns a connection, None to try again."""
    own = place.with_name(f"{place.name}-{uuid.uuid4().hex[:8]}")
    with ExitStack() as stack, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(_short(own, stack))
        stack.callback(own.unlink)
        own.chmod(0o600)
        listening.listen()
        try:
            place.hardlink_to(own)
        except FileExistsError:
            if (found := connection_to(place)) is None:
                place.unlink(missing_ok=True)  # its server is dead
            return found
        try:
            begin(listening)
        except BaseException:
            place.unlink()
            raise
        return connection_to(place)  # succeeds while this process listens, too, whatever became of the server


def _short(place: Path, stack: ExitStack) -> str:
    """Returns a path that fits into a socket's address (107 bytes), valid while the stack is open."""
    folder = os.open(place.parent, os.O_PATH)
    stack.callback(os.close, folder)
    return f"/proc/self/fd/{folder}/{place.name}"
