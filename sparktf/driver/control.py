"""The control server: Arrow Flight actions with JSON bodies, a per-run secret, and mutual TLS off the local machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pyarrow import flight
from pydantic import ValidationError

from sparktf.errors import RefusedError, SparkTFError
from sparktf.flight import server_options
from sparktf.messages import Action
from sparktf.plan import Message
from sparktf.security import ControlAccess, TlsMaterial

_log = logging.getLogger(__name__)


class Handler(NamedTuple):
    """How one action is answered."""

    request: type[Message]
    answer: Callable[[Any], Message]


class ControlServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers agents and trainers, each call on a thread of gRPC's.

    Whatever a stranger sends is refused and logged; the run goes on.
    """

    def __init__(
        self, bind: str, port: int, secret: str, tls: TlsMaterial | None, handlers: Mapping[Action, Handler]
    ) -> None:
        """Starts to listen.

        Args:
            bind: Address to bind; `port` 0 takes a free one.
        """
        self._handlers = handlers
        scheme = "grpc" if tls is None else "grpc+tls"
        super().__init__(f"{scheme}://{bind}:{port}", **server_options(secret, tls))
        self._scheme, self._secret, self._tls = scheme, secret, tls

    def access(self, host: str) -> ControlAccess:
        """Returns what a node needs to call this server at `host`."""
        return ControlAccess(location=f"{self._scheme}://{host}:{self.port}", secret=self._secret, tls=self._tls)

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
            answer = known.answer(request)
        except RefusedError as e:
            raise flight.FlightUnauthorizedError(str(e)) from None
        except SparkTFError as e:
            _log.warning("%s from %s failed: %s", action.type, peer, e)
            raise flight.FlightServerError(str(e)) from None
        yield flight.Result(answer.model_dump_json().encode())
