"""How processes of one executor find the one that serves them: real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sparktf.process.rendezvous import forget, meet


class Server:
    """Whoever begins to serve a place.

    Attributes:
        begun: The sockets that were to be served.
    """

    def __init__(self) -> None:
        self.begun: list[socket.socket] = []

    def begin(self, listening: socket.socket) -> None:
        """Serves, in a process that has the socket as well."""
        self.begun.append(listening.dup())

    def end(self) -> None:
        """Ends without a word, and leaves the socket's name behind."""
        for listening in self.begun:
            listening.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / ("a folder with a long name " * 8)
    folder.mkdir()
    return folder / "place"


def test_of_many_that_come_at_once_one_begins_and_all_are_connected(place: Path) -> None:
    server, barrier, connected = Server(), threading.Barrier(20), list[socket.socket]()

    def come() -> None:
        barrier.wait()
        connected.append(meet(place, server.begin))

    threads = [threading.Thread(target=come) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (listening,) = server.begun
    listening.settimeout(60)
    for _ in connected:  # nobody has connected besides: who serves the place ends when the last is gone
        listening.accept()[0].close()
    listening.setblocking(False)
    with pytest.raises(BlockingIOError):
        listening.accept()
    assert [connection.recv(1) for connection in connected] == [b""] * 20
    assert [path.name for path in place.parent.iterdir()] == ["place"]
    assert place.stat().st_mode & 0o777 == 0o600
    for end in (listening, *connected):
        end.close()


def test_a_socket_that_a_killed_server_has_left_is_no_obstacle(place: Path) -> None:
    killed, server = Server(), Server()
    meet(place, killed.begin).close()
    killed.end()
    meet(place, server.begin).close()
    meet(place, killed.begin).close()
    assert (len(killed.begun), len(server.begun)) == (1, 1)
    server.end()


def test_what_a_killed_server_has_left_is_removed_and_nothing_of_the_next_one_or_where_nothing_is(place: Path) -> None:
    killed, server = Server(), Server()
    meet(place, killed.begin).close()
    killed.end()
    forget(place)
    assert not list(place.parent.iterdir())
    forget(place)
    meet(place, server.begin).close()
    forget(place)
    meet(place, killed.begin).close()
    assert (len(killed.begun), len(server.begun)) == (1, 1)
    server.end()


def test_nothing_is_left_where_nobody_can_begin(place: Path) -> None:
    def fail(listening: socket.socket) -> None:
        raise OSError("no process")

    begin: Callable[[socket.socket], None] = fail
    with pytest.raises(OSError, match="no process"):
        meet(place, begin)
    assert not list(place.parent.iterdir())
