"""How processes of one user on one machine find the one that serves them all, and agree who starts it."""

from __future__ import annotations

import os
import socket
import struct
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

_PEER = struct.Struct("3i")
"""What SO_PEERCRED tells: process, user and group."""


def meet(place: Path, begin: Callable[[socket.socket], None]) -> socket.socket:
    """Returns a connection to who serves a place; where nobody does, has somebody begin to.

    Args:
        place: Path of a socket, in a folder that other users cannot write to.
        begin: Starts who will serve the socket that it is given, which listens already.

    Raises:
        OSError: the place cannot be used, or `begin` has raised it.
    """
    found = None
    while found is None:
        found = _connection(place) or _begun(place, begin)
    return found


def forget(place: Path) -> None:
    """Removes what a service has left at its place that has ended; of another, which began there since, nothing."""
    with suppress(OSError):  # whoever comes next does so as well
        if (found := _connection(place)) is None:
            place.unlink()
        else:
            found.close()


def _begun(place: Path, begin: Callable[[socket.socket], None]) -> socket.socket | None:
    """Begins to serve a place, unless somebody else was quicker; returns a connection, None to be tried again."""
    own = place.with_name(f"{place.name}-{uuid.uuid4().hex[:8]}")
    with ExitStack() as stack, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(_short(own, stack))
        stack.callback(own.unlink)
        own.chmod(0o600)
        listening.listen()
        try:
            place.hardlink_to(own)
        except FileExistsError:
            if (found := _connection(place)) is None:
                place.unlink(missing_ok=True)  # whoever served it is dead
            return found
        try:
            begin(listening)
        except BaseException:
            place.unlink()
            raise
        return _connection(place)  # while this process listens, too, there is one, whatever became of the other


def _connection(place: Path) -> socket.socket | None:
    """Returns a connection to who listens at a place, None where nobody does.

    Raises:
        PermissionError: it is another user.
    """
    with ExitStack() as stack:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(_short(place, stack))
            _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if user != os.getuid():
                raise PermissionError(f"user {user} listens at {place}")
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection


def _short(place: Path, stack: ExitStack) -> str:
    """Returns a name for a place that fits into a socket's address, for as long as the stack is open."""
    folder = os.open(place.parent, os.O_PATH)
    stack.callback(os.close, folder)
    return f"/proc/self/fd/{folder}/{place.name}"
