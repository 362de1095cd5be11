"""A peer that sends other bytes than are due: the member says so by its name, and waits for nothing."""

from __future__ import annotations

import socket
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from exchanges import linked
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sparktf.errors import ExchangeError, NodeLostError, PeerLostError
from sparktf.trainer.sync.exchange.link import Link
from sparktf.trainer.sync.exchange.linked import LinkedExchange

HEADER = struct.Struct("!4sIIQB3xIQ4x")
"""Magic, attempt, generation, operation, kind, part, length."""
LARGE = 120_000
PEER = "worker 1"
WITHIN_S = 60


def work(member: LinkedExchange) -> list[Any]:
    """Runs operations of all kinds."""
    own = member.rank + 1
    small, large = member.sum([np.full(10, own, np.float32), np.full(LARGE, own, np.float32)])
    rows = member.gather(np.full((own, 3), own))
    theirs = member.from_leader([np.full(LARGE, own, np.float32), np.arange(4) * own])
    return [small, large, *rows, *theirs]


class Message(NamedTuple):
    """One that the peer sends."""

    header: bytes
    content: bytes


class Recorder:
    """A socket that keeps the bytes that are sent."""

    def __init__(self, sock: socket.socket) -> None:
        self.sent = b""
        self._sock = sock

    def send(self, view: memoryview) -> int:
        count = self._sock.send(view)
        self.sent += bytes(view[:count])
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


@cache
def messages() -> list[Message]:
    """Returns all that member 1 of two sends, who is the leader."""
    with linked(2, leader=1) as gang:
        link = gang.links[1][0]
        recorder: Any = Recorder(link.sock)
        link.sock = recorder
        gang.each(work)
    found, rest = [], recorder.sent
    while rest:
        end = HEADER.size + HEADER.unpack_from(rest)[-1]
        found.append(Message(rest[: HEADER.size], rest[HEADER.size : end]))
        rest = rest[end:]
    return found


@contextmanager
def beside(sent: bytes, *, closes: bool = True) -> Iterator[LinkedExchange]:
    """Gives a member whose peer sends these bytes, whatever it is sent, and then closes the connection."""
    here, there = socket.socketpair()
    link = Link(PEER, here, pair=("worker 0", PEER))

    def send() -> None:
        with suppress(OSError):  # the member has ended
            there.sendall(sent)
            if closes:
                there.shutdown(socket.SHUT_WR)

    def drain() -> None:
        with suppress(OSError):
            while there.recv(1 << 16):
                pass

    threads = [threading.Thread(target=each) for each in (send, drain)]
    for thread in threads:
        thread.start()
    try:
        yield LinkedExchange(0, 2, 1, {1: link}, attempt=1)
    finally:
        link.close()
        for thread in threads:
            thread.join(WITHIN_S)
        there.close()


def told(sent: bytes, *, closes: bool = True) -> NodeLostError | None:
    """Returns the error of a member whose peer sends these bytes; None if it takes them."""
    with beside(sent, closes=closes) as member, ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(work, member).result(WITHIN_S)
        except (ExchangeError, PeerLostError) as error:
            return error
    return None


def test_what_is_due_is_taken() -> None:
    assert told(b"".join(header + content for header, content in messages())) is None
    assert len(messages()) > 5


@settings(max_examples=60)
@given(
    of=st.integers(0, 1_000),
    at=st.integers(0, HEADER.size - 1),
    value=st.integers(1, 255),
)
def test_a_header_that_is_not_due_ends_it_at_once(of: int, at: int, value: int) -> None:
    """The peer closes nothing, and sends no more."""
    every = messages()
    of %= len(every)
    header = bytearray(every[of].header)
    header[at] ^= value
    assume(HEADER.unpack(header) != HEADER.unpack(every[of].header))  # padding
    error = told(b"".join(h + c for h, c in every[:of]) + header, closes=False)
    assert isinstance(error, ExchangeError)
    assert str(error).startswith(f"{PEER} sent ")


@st.composite
def confused(draw: st.DrawFn) -> bytes:
    """Bytes that a peer might send which is not well."""
    every = list(messages())
    place, other = (draw(st.integers(0, len(every) - 1)) for _ in range(2))
    match draw(st.sampled_from(["swap", "repeat", "leave out", "content", "nothing", "noise"])):
        case "swap":
            every[place], every[other] = every[other], every[place]
        case "repeat":
            every.insert(place, every[place])
        case "leave out":
            del every[place]
        case "content":
            header, content = every[place]
            found = bytearray(content)
            begin = draw(st.integers(0, max(len(found) - 8, 0)))
            found[begin : begin + 8] = draw(st.binary(min_size=8, max_size=8))
            every[place] = Message(header, bytes(found[: len(content)]))
        case "noise":
            return draw(st.binary(max_size=200))
    sent = b"".join(header + content for header, content in every)
    begin = draw(st.integers(0, len(sent)))
    match draw(st.sampled_from(["whole", "whole", "insert", "drop", "cut"])):
        case "insert":
            sent = sent[:begin] + draw(st.binary(min_size=1, max_size=50)) + sent[begin:]
        case "drop":
            sent = sent[:begin] + sent[begin + draw(st.integers(1, 50)) :]
        case "cut":
            sent = sent[:begin]
    return sent


def lying(rows: int) -> bytes:
    """What a peer sends that says it has so many rows to gather."""
    every = list(messages())
    place = next(i for i, (_, content) in enumerate(every) if content == struct.pack("=qq", 0, 2))
    every[place] = every[place]._replace(content=struct.pack("=qq", 0, rows))
    return b"".join(header + content for header, content in every)


@settings(max_examples=150)
@given(sent=confused())
@example(sent=b"")
def test_whatever_a_peer_sends_it_is_told_by_its_name_and_nothing_is_waited_for(sent: bytes) -> None:
    error = told(sent)
    assert error is None or PEER in str(error)


@pytest.mark.parametrize("rows", [-1, 1, 1 << 40, 1 << 62])
def test_rows_that_cannot_be_are_an_error_of_the_exchange_and_not_of_memory(rows: int) -> None:
    assert isinstance(told(lying(rows)), ExchangeError)


def test_no_memory_is_taken_for_a_length_that_came() -> None:
    every = messages()
    longer = HEADER.pack(*HEADER.unpack(every[0].header)[:-1], 1 << 30)
    tracemalloc.start()
    error = told(longer + every[0].content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, ExchangeError)
    assert peak < 16 << 20
