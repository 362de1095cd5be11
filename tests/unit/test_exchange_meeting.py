"""How the members of a gang find each other, and what a stranger gets."""

from __future__ import annotations

import datetime
import logging
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparktf.errors import NodeLostError
from sparktf.trainer.sync.exchange.linked import LinkedExchange, partners
from sparktf.trainer.sync.exchange.meeting import HELLO, Membership, Peer, link_members
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.security import TlsMaterial

TLS = new_tls_material(datetime.datetime.now(datetime.UTC))
SECRET = "the run's secret"


def places(count: int, *, one_host: bool = False) -> list[Peer]:
    """Members at free ports of loopback, each with an address of its own but where they share a host."""
    held = [socket.create_server(("127.0.0.1" if one_host else f"127.0.0.{i + 1}", 0)) for i in range(count)]
    found = [Peer(f"worker {i}", *listener.getsockname()) for i, listener in enumerate(held)]
    for listener in held:
        listener.close()
    return found


def membership(rank: int, tls: TlsMaterial | None = None, attempt: int = 1, secret: str = SECRET) -> Membership:
    return Membership(rank, attempt, 1, secret, tls)


@contextmanager
def exchange(members: list[Peer], rank: int, tls: TlsMaterial | None) -> Iterator[LinkedExchange]:
    links = link_members(members, membership(rank, tls), partners(rank, len(members)))
    found = LinkedExchange(rank, len(members), 0, links, attempt=1)
    try:
        yield found
    finally:
        found.close()


def mean_rank(members: list[Peer], tls: TlsMaterial | None, rank: int) -> float:
    """Returns the mean of a sum in which each member has its rank."""
    with exchange(members, rank, tls) as found:
        return float(found.sum([np.full(300_000, rank, np.float32)])[0].mean())


@pytest.mark.parametrize("tls", [None, TLS], ids=["plain", "tls"])
@pytest.mark.parametrize("one_host", [False, True])
@pytest.mark.parametrize("count", [2, 5])
def test_members_meet_whoever_comes_first_and_sum(count: int, *, one_host: bool, tls: TlsMaterial | None) -> None:
    members = places(count, one_host=one_host)
    with ThreadPoolExecutor(count) as pool:
        found = pool.map(partial(mean_rank, members, tls), reversed(range(count)))
        assert list(found) == [sum(range(count))] * count


def test_nobody_listens_on_the_network_where_all_members_are_on_one_host() -> None:
    members = places(2, one_host=True)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(mean_rank, members, None, 0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(members[0][1:]).close()
        assert mean_rank(members, None, 1) == waiting.result() == 1


def test_a_port_that_another_program_has_is_no_failure_of_the_model() -> None:
    members = places(2)
    with (
        socket.create_server(("", members[0].port)),
        pytest.raises(NodeLostError, match=f"worker 0 cannot listen for its gang at port {members[0].port}: .*in use"),
    ):
        mean_rank(members, None, 0)


def test_a_peer_that_cannot_be_reached_is_named_in_the_log_once_and_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = places(2)
    host, port = members[0][1:]
    with ThreadPoolExecutor(1) as pool:
        with socket.create_server((host, port)) as broken:
            waiting = pool.submit(mean_rank, members, None, 1)
            for _ in range(3):
                with broken.accept()[0] as called:
                    called.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by a reset
        assert mean_rank(members, None, 0) == waiting.result() == 1
    (said,) = [record.message for record in caplog.records if "worker 0" in record.message]
    assert said.startswith(f"worker 0 at {host}:{port} cannot be reached: ")


# ---- strangers ----


def plain(member: Peer) -> socket.socket:
    return socket.create_connection((member.host, member.port), timeout=5)


def with_tls(material: TlsMaterial | None) -> Callable[[Peer], socket.socket]:
    def connect(member: Peer) -> socket.socket:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if material is not None:
            context.load_cert_chain(*certificate_files[material.certificate])
        return context.wrap_socket(plain(member))

    return connect


certificate_files: dict[str, tuple[str, str]] = {}
FOREIGN = new_tls_material(datetime.datetime.now(datetime.UTC))


@pytest.fixture(autouse=True)
def _files(tmp_path: object) -> None:
    for name, material in (("own", TLS), ("foreign", FOREIGN)):
        paths = []
        for part in ("certificate", "key"):
            path = f"{tmp_path}/{name}.{part}"
            with open(path, "w", encoding="utf-8") as file:
                file.write(getattr(material, part))
            paths.append(path)
        certificate_files[material.certificate] = (paths[0], paths[1])


def hello(attempt: int = 1, generation: int = 1, rank: int = 1, called: int = 0) -> bytes:
    return HELLO.pack(b"stfm", attempt, generation, rank, called, bytes(16))


STRANGERS: dict[str, tuple[TlsMaterial | None, Callable[[Peer], socket.socket], bytes, str]] = {
    "nothing": (None, plain, b"", "it closed the connection"),
    "another protocol": (None, plain, b"GET / HTTP/1.1\r\nHost: anybody\r\n\r\n" * 9, "it began with b'GET / HT'"),
    "an older attempt": (None, plain, hello(attempt=0), "it is of attempt 0, generation 1, for member 0"),
    "another generation": (None, plain, hello(generation=9), "it is of attempt 1, generation 9"),
    "for another": (None, plain, hello(called=7), "for member 7"),
    "not a partner": (None, plain, hello(rank=70), "member 70 has no connection to this one"),
    "without the secret": (None, plain, hello() + bytes(32), "it does not know the run's secret"),
    "no tls": (TLS, plain, hello() + bytes(32), "SSL"),
    "no certificate": (TLS, with_tls(None), hello(), "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    "a foreign certificate": (TLS, with_tls(FOREIGN), hello(), "CERTIFICATE_VERIFY_FAILED"),
    "the certificate alone": (TLS, with_tls(TLS), hello() + bytes(32), "it does not know the run's secret"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_refused_and_the_members_meet(name: str, caplog: pytest.LogCaptureFixture) -> None:
    tls, connect, sent, why = STRANGERS[name]
    caplog.set_level(logging.DEBUG)
    members = places(2)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(mean_rank, members, tls, 0)
        answer = refused(connect, members[0], sent)
        assert mean_rank(members, tls, 1) == waiting.result() == 1
    assert len(answer) <= 48, "a challenge, and a proof that gives nothing away"
    # The connection is closed first, and the thread that says why may come last.
    until_s = time.monotonic() + 30
    while not any(why in record.message for record in caplog.records):
        assert time.monotonic() < until_s, caplog.text
        time.sleep(0.01)


def refused(connect: Callable[[Peer], socket.socket], member: Peer, sent: bytes) -> bytes:
    """Connects once somebody listens, sends, and returns all that comes until the connection is closed."""
    while True:
        try:
            sock = connect(member)
        except ConnectionRefusedError:
            continue
        except OSError:
            return b""
        break
    found = b""
    with sock:
        try:
            sock.sendall(sent)
            if not sent:
                sock.shutdown(socket.SHUT_WR)
            while more := sock.recv(4_096):
                found += more
        except OSError:
            pass  # closed while there was something to read
    return found


@settings(max_examples=10)
@given(said=st.lists(st.tuples(st.booleans(), st.binary(max_size=120), st.booleans()), min_size=1, max_size=8))
def test_members_meet_whatever_strangers_say_and_however_long_they_say_nothing(
    said: list[tuple[bool, bytes, bool]],
) -> None:
    """Each begins as a member would or not, says something, and closes the connection or keeps it."""
    members = places(2)
    kept: list[socket.socket] = []
    try:
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(mean_rank, members, None, 0)
            for begins, more, closes in said:
                stranger = connected(members[0])
                stranger.sendall(hello() * begins + more)
                if closes:
                    stranger.close()
                else:
                    kept.append(stranger)
            assert mean_rank(members, None, 1) == waiting.result() == 1
    finally:
        for stranger in kept:
            stranger.close()


def connected(member: Peer) -> socket.socket:
    """Returns a connection to a member, once it listens."""
    while True:
        with suppress(ConnectionRefusedError):
            return plain(member)


@pytest.mark.parametrize("tls", [None, TLS], ids=["plain", "tls"])
def test_a_member_tells_a_stranger_nothing_who_listens_in_its_peers_place(tls: TlsMaterial | None) -> None:
    """As another program that has taken the port before the peer comes."""
    members = places(2)
    with ThreadPoolExecutor(1) as pool:
        with socket.create_server((members[0].host, members[0].port)) as stranger:
            waiting = pool.submit(mean_rank, members, tls, 1)
            with stranger.accept()[0] as called:
                called.settimeout(10)
                said = called.recv(4_096)
                with suppress(OSError):  # it has gone
                    called.sendall(bytes(4_096))
                    while more := called.recv(4_096):
                        said += more
        assert mean_rank(members, tls, 0) == waiting.result() == 1
    assert SECRET.encode() not in said
    assert tls is not None or len(said) == HELLO.size, "no proof before the other's"
