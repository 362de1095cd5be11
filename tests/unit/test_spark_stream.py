"""The end of what Spark streams to a worker, told from its breaking off: real sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from sparktf.errors import ControlError, LifecycleError
from sparktf.executor.spark_stream import unbroken, whole


@pytest.fixture
def worker() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection: the worker's, and Spark's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_stream_whose_connection_lasts_has_ended(worker: tuple[socket.socket, socket.socket]) -> None:
    assert list(unbroken([1, 2], worker[0].fileno())) == [1, 2]


def test_what_comes_after_the_end_stays_for_whom_it_is_meant(worker: tuple[socket.socket, socket.socket]) -> None:
    worker[1].send(b"end")
    assert list(unbroken([1, 2], worker[0].fileno())) == [1, 2]
    assert worker[0].recv(10) == b"end"


def test_a_stream_whose_connection_is_closed_has_broken_off(worker: tuple[socket.socket, socket.socket]) -> None:
    worker[1].close()
    batches = unbroken([1, 2], worker[0].fileno())
    assert [next(batches), next(batches)] == [1, 2]
    with pytest.raises(ControlError, match="closed the connection"):
        next(batches)


def test_a_reset_connection_has_broken_off_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        with pytest.raises(ControlError, match="closed the connection"):
            list(unbroken([], ours.fileno()))


def test_outside_of_a_worker_nothing_is_passed_on() -> None:
    with pytest.raises(LifecycleError):
        list(whole([1]))
