"""Members of an exchange, each in a process with a core of its own, and in threads where only counts matter."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from _core import bind

from sparktf.trainer.sync.exchange.link import Link
from sparktf.trainer.sync.exchange.linked import LinkedExchange, partners
from sparktf.trainer.sync.exchange.meeting import Membership, Peer, link_members
from sparktf.wire.security import TlsMaterial

TIMEOUT_S = 120
WARM_UP = 3


class Way(NamedTuple):
    """How members are connected.

    Attributes:
        one_host: They say that they share a host, and so use a unix socket; else TCP, over loopback.
    """

    name: str
    one_host: bool
    tls: TlsMaterial | None = None


class Taken(NamedTuple):
    """What sums took that come one after another as in training.

    Attributes:
        wall_ms: Median of a sum.
        cpu_ms: Mean processor time of a sum, of one member.
    """

    wall_ms: float
    cpu_ms: float


class Counts(NamedTuple):
    """What one sum took of the member that had most to do.

    Attributes:
        nbytes: Sent, headers included.
        rounds: Steps that come one after another.
    """

    nbytes: int
    rounds: int


class _CountedLink(Link):
    """Counts what the socket has taken."""

    nbytes = 0

    def send(self, view: memoryview) -> tuple[int, Any]:
        sent, wanted = super().send(view)
        self.nbytes += sent
        return sent, wanted


class _CountedExchange(LinkedExchange):
    """Counts the steps in which it sends or receives."""

    rounds = 0

    def _move(self, to: int | None, out: Any, by: int | None, into: Any, **settings: Any) -> None:
        self.rounds += to is not None or by is not None
        super()._move(to, out, by, into, **settings)


def timed(way: Way, members: int, nbytes: int, sums: int) -> Taken:
    """Returns what each of many sums took."""
    found: Taken = _told_by(members, way, _member, nbytes, sums)
    return found


def given(way: Way, nbytes: int) -> float:
    """Returns the seconds in which one member gives another one bytes, the median of some."""
    found: float = _told_by(2, way, _giver, nbytes)
    return found


def _told_by(members: int, way: Way, work: Callable[..., None], nbytes: int, *more: int) -> Any:
    """Returns what one of the members tells of its work, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    peers = _places(members, way)
    each = [(rank, peers, way, nbytes, *more, theirs) for rank in range(members)]
    processes = [context.Process(target=work, args=args, daemon=True) for args in each]
    for process in processes:
        process.start()
    try:
        if not ours.poll(TIMEOUT_S):
            raise SystemExit(f"{members} members by {way.name} told nothing of {nbytes} bytes in {TIMEOUT_S} s")
        found = ours.recv()
        for process in processes:
            process.join(TIMEOUT_S)
    finally:
        for process in processes:
            process.kill()
    return found


def counts(members: int, nbytes: int) -> Counts:
    """Returns the bytes and rounds of one sum of float32."""
    links: list[dict[int, _CountedLink]] = [{} for _ in range(members)]
    for low in range(members):
        for high in (rank for rank in partners(low, members) if rank > low):
            one, other = socket.socketpair()
            pair = str(low), str(high)
            links[low][high] = _CountedLink(str(high), one, pair=pair)
            links[high][low] = _CountedLink(str(low), other, pair=pair)
    gang = [_CountedExchange(rank, members, 0, links[rank], attempt=1) for rank in range(members)]
    with ThreadPoolExecutor(members) as pool:
        for (total,) in pool.map(lambda member: member.sum([np.ones(nbytes // 4, np.float32)]), gang):
            if not (total == members).all():
                raise SystemExit(f"a sum over {members} members is wrong")
    for member in gang:
        member.close()
    sent = [sum(link.nbytes for link in own.values()) for own in links]
    return Counts(max(sent), max(member.rounds for member in gang))


def _places(members: int, way: Way) -> list[Peer]:
    held = [socket.create_server(("127.0.0.1" if way.one_host else f"127.0.0.{i + 1}", 0)) for i in range(members)]
    found = [Peer(f"worker {i}", *listener.getsockname()) for i, listener in enumerate(held)]
    for listener in held:
        listener.close()
    return found


def _member(rank: int, peers: Sequence[Peer], way: Way, nbytes: int, sums: int, tell: Connection) -> None:
    """Sums again and again; rank 0 tells what it took."""
    bind(rank)
    own = Membership(rank, 1, 1, "of this benchmark", way.tls)
    links = link_members(peers, own, partners(rank, len(peers)))
    exchange = LinkedExchange(rank, len(peers), 0, links, attempt=1)
    values = np.ones(nbytes // 4, np.float32)
    wall_s, cpu_s = [], []
    for _ in range(WARM_UP + sums):
        exchange.sum([np.zeros(1, np.float32)])  # all begin at once
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        exchange.sum([values])
        wall_s.append(time.perf_counter() - began_s)
        cpu_s.append(time.process_time() - began_cpu_s)
    exchange.close()
    if rank == 0:
        tell.send(Taken(float(np.median(wall_s[WARM_UP:])) * 1e3, float(np.mean(cpu_s[WARM_UP:])) * 1e3))


def _giver(rank: int, peers: Sequence[Peer], way: Way, nbytes: int, tell: Connection) -> None:
    own = Membership(rank, 1, 1, "of this benchmark", way.tls)
    exchange = LinkedExchange(rank, 2, 0, link_members(peers, own, partners(rank, 2)), attempt=1)
    values, took_s = [np.ones(nbytes // 4, np.float32)], []
    for _ in range(WARM_UP + 3):
        exchange.sum([np.zeros(1, np.float32)])  # both begin at once
        began_s = time.perf_counter()
        exchange.from_leader(values)
        exchange.sum([np.zeros(1, np.float32)])  # it has come
        took_s.append(time.perf_counter() - began_s)
    exchange.close()
    if rank == 0:
        tell.send(float(np.median(took_s[WARM_UP:])))
