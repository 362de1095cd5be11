"""Which ports nodes get, while others on the host take some: on loopback and real sockets."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import pytest

from sparktf.errors import PreflightError
from sparktf.feed.channel.server import ChannelServer, SplitServer
from sparktf.process.ports import LOOPBACK, BoundPort, at_free_port, started


@pytest.fixture
def others() -> Iterator[ExitStack]:
    """Closes in the end what others hold."""
    with ExitStack() as stack:
        yield stack


def take(others: ExitStack, port: int = 0) -> int:
    """Takes a port as another program does; returns which."""
    taken = others.enter_context(socket.socket())
    taken.bind(("", port))
    taken.listen()
    return int(taken.getsockname()[1])


def data_server(folder: Path, port: int | None) -> ChannelServer:
    return ChannelServer(LOOPBACK, port, folder, "secret", None, partial(SplitServer, 1, {}, lambda span, rows: None))


def port_of(server: ChannelServer) -> int:
    return int(server.address.location.rpartition(":")[2])


def listening() -> set[int]:
    """Returns the TCP ports that this process listens at."""
    return {found.laddr.port for found in psutil.Process().net_connections("tcp") if found.status == "LISTEN"}


def test_a_server_passes_over_a_port_that_somebody_takes_just_before_it(others: ExitStack, tmp_path: Path) -> None:
    first = take(others)
    lost: list[int] = []

    def start(port: int) -> ChannelServer:
        if not lost:
            lost.append(take(others, port))
        return data_server(tmp_path, port)

    server = at_free_port(f"{first}-{first + 50}", start)
    assert first < lost[0] < port_of(server) <= first + 50
    assert Path(server.address.socket).is_socket()


def test_a_server_takes_any_port_where_none_is_asked_for(tmp_path: Path) -> None:
    server = at_free_port("0", lambda port: data_server(tmp_path, port))
    with socket.create_connection(("127.0.0.1", port_of(server))):
        pass


def test_a_port_that_an_agent_holds_is_nobody_elses(tmp_path: Path) -> None:
    held = BoundPort()
    ports = f"{held.port}-{held.port + 50}"
    other = BoundPort(ports)
    server = at_free_port(ports, lambda port: data_server(tmp_path, port))
    assert len({held.port, other.port, port_of(server)}) == 3
    other.close()
    held.close()


def test_a_range_without_a_free_port_is_refused_by_the_settings_name(others: ExitStack, tmp_path: Path) -> None:
    port = take(others)
    says = re.escape(f"no free port in cluster.node_ports: {port}-{port} on ")
    with pytest.raises(PreflightError, match=says):
        BoundPort(f"{port}-{port}")
    with pytest.raises(PreflightError, match=says):
        at_free_port(f"{port}-{port}", lambda port: data_server(tmp_path, port))


def test_where_all_nodes_are_on_one_machine_a_server_has_no_port(others: ExitStack, tmp_path: Path) -> None:
    taken, before = take(others), listening()
    (folder := tmp_path / "alone").mkdir()
    server = started(LOOPBACK, str(taken), lambda port: data_server(folder, port))
    assert Path(server.address.socket).is_socket()
    assert not server.address.location
    assert listening() == before
    assert port_of(started("h", "0", lambda port: data_server(tmp_path, port))) in listening()


def test_what_kept_a_server_from_each_port_is_said(others: ExitStack, tmp_path: Path) -> None:
    free = BoundPort()
    port = free.port
    free.close()

    def start(port: int) -> ChannelServer:
        take(others, port)
        return data_server(tmp_path, port)

    with pytest.raises(PreflightError, match=rf"{port}-{port} on .*: port {port} is not available: "):
        at_free_port(f"{port}-{port}", start)
