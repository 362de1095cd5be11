"""The control server: Arrow Flight actions with JSON bodies and a per-run secret, over mutual TLS or a unix socket."""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyarrow import flight
from pydantic import ValidationError

from sparktf.config.job import SecurityConfig
from sparktf.driver.gang.site import Handler
from sparktf.errors import RefusedError, SparkTFError
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.process.ports import LOOPBACK
from sparktf.told import log_of
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.control import Action
from sparktf.wire.flight import server_options
from sparktf.wire.security import ControlAccess, TlsMaterial, new_secret

_SOCKET = "driver"
_MAX_SOCKET_PATH = 107  # bytes, by the kernel

_log = log_of(__name__)


class Addresses(NamedTuple):
    """Where the server listens, and where nodes reach it."""

    bind: str
    host: str


HERE = Addresses(LOOPBACK, LOOPBACK)


class ControlServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers agents and trainers, each call on a thread of gRPC's. Refuses and logs messages of strangers."""

    def __init__(
        self,
        addresses: Addresses,
        port: int,
        secret: str,
        tls: TlsMaterial | None,
        handlers: Mapping[Action, Handler],
    ) -> None:
        """Starts to listen. Port 0 takes a free one."""
        bind, self._host = addresses
        self._scheme = "grpc" if tls is None else "grpc+tls"
        self._start(f"{self._scheme}://{bind}:{port}", secret, tls, handlers)

    def _start(
        self,
        location: str | flight.Location,
        secret: str,
        tls: TlsMaterial | None,
        handlers: Mapping[Action, Handler],
    ) -> None:
        self._handlers = handlers
        super().__init__(location, **server_options(secret, tls))
        self._secret, self._tls = secret, tls

    def access(self) -> ControlAccess:
        """Returns the address and credentials with which a node calls this server."""
        location = f"{self._scheme}://{self._host}:{self.port}"
        return ControlAccess(location=location, secret=self._secret, tls=self._tls)

    def withdraw(self) -> None:
        """Takes the address away, before `shutdown`, which may wait long."""

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Answers one action."""
        peer = context.peer()
        try:
            known = self._handlers[Action(action.type)]
        except ValueError:
            _log.warning("refused the unknown action %.80r from %s", action.type, peer)
            raise flight.FlightUnauthorizedError(f"unknown action {action.type[:80]!r}") from None
        try:
            request = known.request.model_validate_json(action.body.to_pybytes())
        except ValidationError as e:
            _log.warning("refused a malformed %s from %s: %d errors", action.type, peer, e.error_count())
            raise flight.FlightUnauthorizedError(f"malformed {action.type}") from None
        try:
            answer = _answered(known, request)
        except RefusedError as e:
            raise flight.FlightUnauthorizedError(str(e)) from None
        except SparkTFError as e:
            _log.warning("%s from %s failed: %s", action.type, peer, e)
            raise flight.FlightServerError(str(e)) from None
        yield flight.Result(answer.model_dump_json().encode())


def _answered(handler: Handler, request: Any) -> Message:
    """Returns the answer to a request; where it is not known yet, the one after a change, or after a while."""
    if handler.later is None:
        return handler.answer(request)
    changes = handler.later.changes()
    number = changes.read()
    answer = handler.answer(request)
    if not handler.later.is_known(answer) and changes.await_after(number, KNOBS.regroup_s):
        return handler.answer(request)  # as if it came only now
    return answer


class LocalControlServer(ControlServer):
    """A server for nodes on this machine: on a unix socket in a folder that only its user can enter."""

    def __init__(self, below: str | None, secret: str, handlers: Mapping[Action, Handler]) -> None:
        """Starts to listen. The socket's folder is made in `below`, by default the system's temporary folder."""
        self._folder = tempfile.mkdtemp(prefix="sparktf-", dir=below)
        # As long as it is open, the folder has a short name besides, whose owner alone may follow it.
        self._open_folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        path = os.path.join(self._folder, _SOCKET)
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
            path = f"/proc/{os.getpid()}/fd/{self._open_folder}/{_SOCKET}"
        self._location = flight.Location.for_grpc_unix(path)
        self._start(self._location, secret, None, handlers)

    def access(self) -> ControlAccess:
        """See `ControlServer`; it is reached by its path."""
        return ControlAccess(location=self._location.uri.decode(), secret=self._secret)

    def withdraw(self) -> None:
        """See `ControlServer`."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._open_folder)


def serve(
    security: SecurityConfig,
    port: int,
    handlers: Mapping[Action, Handler],
    addresses: Addresses,
    *,
    one_machine: bool,
    scratch: str | None = None,
) -> ControlServer:
    """Starts the server that a run's security settings ask for.

    Args:
        one_machine: Whether all nodes are on this machine: then a unix socket serves, and TLS is not needed.
        scratch: A folder that is removed with the gang, even if this process is killed; None if there is none.
    """
    if one_machine and security.tls != "on":
        return LocalControlServer(scratch, new_secret(), handlers)
    encrypted = security.tls != "off"
    material = new_tls_material(datetime.datetime.now(datetime.UTC)) if encrypted else None
    return ControlServer(addresses, port, new_secret(), material, handlers)
