"""The connections of a gang: each member listens for its partners of higher rank, and connects to those of lower rank.

Members on one host use a unix socket, others TCP with the run's mutual TLS. Over either, both sides prove that they
know the run's secret before anything else is read or any memory is taken: a challenge and its answer, each way. A
stranger is refused after at most `HELLO.size` bytes or `_LIMIT_S`, and the meeting goes on.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from sparktf.errors import NodeLostError, PeerLostError
from sparktf.told import log_of
from sparktf.trainer.sync.exchange.link import BUFFER_NBYTES, Link
from sparktf.wire.security import NODE_NAME, TlsMaterial

HELLO = struct.Struct("!4sIIHH16s")  # Magic, attempt, generation, rank of the caller and of the called, nonce
_MAGIC = b"stfm"
_NONCE_NBYTES = 16
_PROOF_NBYTES = 32
_LIMIT_S = 10.0
"""Of one introduction."""

_AGAIN_S = 0.005, 0.1
"""Waits for a member that does not listen yet: the first one, and the longest; each is twice the one before. Members
that regroup come within milliseconds of each other, and stand still meanwhile; those that start, within seconds."""

_AT_ONCE = 64
"""Introductions under way; more callers wait in the listeners' queues."""

_log = log_of(__name__)


class Peer(NamedTuple):
    """A member of the gang: its name for people, and its address."""

    name: str
    host: str
    port: int


class Membership(NamedTuple):
    """One member's rank in its gang, and the proofs that it belongs there."""

    rank: int
    attempt: int
    generation: int
    secret: str
    tls: TlsMaterial | None  # None where `security.tls` is off

    def proof(self, side: bytes, hello: bytes, nonce: bytes) -> bytes:
        """Returns the answer of one side to the other's challenge."""
        return hmac.digest(self.secret.encode(), side + hello + nonce, hashlib.sha256)

    def unix_name(self, rank: int) -> str:
        """Returns the name of a member's unix socket, which has no path; others cannot guess it."""
        text = f"{self.attempt}/{self.generation}/{rank}".encode()
        return "\0sparktf-" + hmac.new(self.secret.encode(), text, hashlib.sha256).hexdigest()[:32]


class StrangerError(Exception):
    """A connection is not that of a member."""


def link_members(
    members: Sequence[Peer],
    own: Membership,
    partners: set[int],
    on_end: Callable[[Callable[[], None]], None] | None = None,
) -> dict[int, Link]:
    """Returns a link to each partner, by rank; waits until all are there, however long their processes take to start.

    Args:
        on_end: Takes what is to be done if the meeting is to end before.

    Raises:
        NodeLostError: this member cannot listen at its port.
        PeerLostError: the meeting has ended before all were there.
    """
    meeting = _Meeting(members, own, partners)
    if on_end is not None:
        on_end(meeting.close)
    try:
        return meeting.links()
    finally:
        meeting.close()


class _Meeting:
    def __init__(self, members: Sequence[Peer], own: Membership, partners: set[int]) -> None:
        self._members = members
        self._own = own
        self._partners = partners
        self._contexts = None if own.tls is None else _contexts(own.tls)
        self._found: dict[int, Link] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self._slots = threading.Semaphore(_AT_ONCE)
        called = [rank for rank in partners if rank > own.rank]
        self._listeners = self._listen() if called else []
        for listener in self._listeners:
            self._start(partial(self._accept, listener))
        for rank in partners.difference(called):
            self._start(partial(self._call, rank))

    def links(self) -> dict[int, Link]:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._partners <= self._found.keys())
            if not self._partners <= self._found.keys():
                for link in self._found.values():
                    link.close()
                names = ", ".join(self._members[rank].name for rank in sorted(self._partners - self._found.keys()))
                raise PeerLostError(f"the gang has changed before {names} could be reached")
            self._is_over = True
            return dict(self._found)

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="meeting", daemon=True).start()

    # ---- being called ----

    def _listen(self) -> list[socket.socket]:
        here = self._members[self._own.rank]
        hosts = {self._members[rank].host for rank in self._partners}
        listeners = [socket.socket(socket.AF_UNIX)] if here.host in hosts else []
        if hosts - {here.host}:
            listeners.append(socket.socket(socket.AF_INET))
        try:
            for listener in listeners:
                self._begin_to_listen(listener, here.port)
        except OSError as error:
            for listener in listeners:
                listener.close()
            raise NodeLostError(f"{here.name} cannot listen for its gang at port {here.port}: {error}") from error
        return listeners

    def _begin_to_listen(self, listener: socket.socket, port: int) -> None:
        _enlarge(listener)
        if listener.family == socket.AF_UNIX:
            listener.bind(self._own.unix_name(self._own.rank))
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # the agent holds it for this process
            listener.bind(("", port))
        listener.listen(_AT_ONCE)

    def _accept(self, listener: socket.socket) -> None:
        while not self._is_over:
            try:
                sock, address = listener.accept()
            except OSError:
                return  # closed
            self._slots.acquire()
            self._start(partial(self._introduced, sock, str(address)))

    def _introduced(self, sock: socket.socket, address: str) -> None:
        try:
            with _closed_on_error(self._secured(sock, called=True)) as found:
                self._add(self._answer(found), found)
        except (StrangerError, OSError) as error:
            # Who comes after the meeting is no trouble to anybody: a member that has tried twice, a port scanner.
            level = logging.DEBUG if self._is_over else logging.WARNING
            _log.log(level, "refused a connection to the exchange from %s: %s", address, error)
        finally:
            self._slots.release()

    def _answer(self, sock: socket.socket) -> int:
        """Answers a caller's introduction; returns its rank."""
        own = self._own
        hello = _exactly(sock, HELLO.size)
        rank: int
        magic, attempt, generation, rank, called, nonce = HELLO.unpack(hello)
        if magic != _MAGIC:
            raise StrangerError(f"it began with {hello[:8]!r}")
        if (attempt, generation, called) != (own.attempt, own.generation, own.rank):
            raise StrangerError(f"it is of attempt {attempt}, generation {generation}, for member {called}")
        if rank <= own.rank or rank not in self._partners:
            raise StrangerError(f"member {rank} has no connection to this one")
        challenge = secrets.token_bytes(_NONCE_NBYTES)
        sock.sendall(challenge + own.proof(b"called", hello, nonce))
        if not hmac.compare_digest(_exactly(sock, _PROOF_NBYTES), own.proof(b"caller", hello, challenge)):
            raise StrangerError("it does not know the run's secret")
        sock.sendall(b"+")
        return rank

    # ---- calling ----

    def _call(self, rank: int) -> None:
        there, is_here = self._members[rank], self._members[rank].host == self._members[self._own.rank].host
        has_said = False
        again_s, longest_s = _AGAIN_S
        while not self._is_over:
            # A container with a network of its own has the same host's name, and another space of names.
            for family in (socket.AF_UNIX, socket.AF_INET) if is_here else (socket.AF_INET,):
                try:
                    with _closed_on_error(self._connected(family, rank, there)) as sock:
                        self._introduce(sock, rank)
                        self._add(rank, sock)
                    return
                except (StrangerError, ConnectionRefusedError):
                    pass  # it does not listen yet
                except OSError as error:
                    if family == socket.AF_INET and not has_said:
                        _log.warning("%s at %s:%d cannot be reached: %s", there.name, there.host, there.port, error)
                        has_said = True
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, again_s)
            again_s = min(2 * again_s, longest_s)

    def _connected(self, family: int, rank: int, there: Peer) -> socket.socket:
        with _closed_on_error(socket.socket(family)) as sock:
            _enlarge(sock)
            sock.settimeout(_LIMIT_S)
            sock.connect(self._own.unix_name(rank) if family == socket.AF_UNIX else (there.host, there.port))
            return self._secured(sock, called=False)

    def _secured(self, sock: socket.socket, *, called: bool) -> socket.socket:
        """Returns a socket after its TLS handshake, if it is to have one; closes it if that fails."""
        with _closed_on_error(sock):
            sock.settimeout(_LIMIT_S)
            if self._contexts is None or sock.family == socket.AF_UNIX:
                return sock
            context = self._contexts[0 if called else 1]
            return context.wrap_socket(sock, server_side=called, server_hostname=None if called else NODE_NAME)

    def _introduce(self, sock: socket.socket, rank: int) -> None:
        own = self._own
        nonce = secrets.token_bytes(_NONCE_NBYTES)
        hello = HELLO.pack(_MAGIC, own.attempt, own.generation, own.rank, rank, nonce)
        sock.sendall(hello)
        challenge = _exactly(sock, _NONCE_NBYTES)
        if not hmac.compare_digest(_exactly(sock, _PROOF_NBYTES), own.proof(b"called", hello, nonce)):
            raise StrangerError("it does not know the run's secret")
        sock.sendall(own.proof(b"caller", hello, challenge))
        if _exactly(sock, 1) != b"+":
            raise StrangerError("it does not take the connection")

    def _add(self, rank: int, sock: socket.socket) -> None:
        with self._changed:
            if self._is_over:
                sock.close()
                return
            if rank in self._found:
                self._found[rank].close()  # its caller has given it up
            one, other = (self._members[each].name for each in sorted((rank, self._own.rank)))
            self._found[rank] = Link(self._members[rank].name, sock, pair=(one, other))
            self._changed.notify_all()


@contextmanager
def _closed_on_error(sock: socket.socket) -> Iterator[socket.socket]:
    """Closes a socket if its block fails."""
    try:
        yield sock
    except BaseException:
        sock.close()
        raise


def _enlarge(sock: socket.socket) -> None:
    """Sets the sizes of buffers, which TCP tells the peer as it connects."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_NBYTES)


def _exactly(sock: socket.socket, nbytes: int) -> bytes:
    found = b""
    while len(found) < nbytes:
        more = sock.recv(nbytes - len(found))
        if not more:
            raise StrangerError("it closed the connection")
        found += more
    return found


def _contexts(tls: TlsMaterial) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Returns the settings of the called and the calling side: TLS 1.3, each shows the run's certificate."""
    called, caller = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    descriptor = os.memfd_create("sparktf-node")  # OpenSSL reads files alone
    try:
        os.write(descriptor, f"{tls.certificate}{tls.key}".encode())
        for context in (called, caller):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(cadata=tls.authority)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
            context.verify_mode = ssl.CERT_REQUIRED
    finally:
        os.close(descriptor)
    return called, caller
