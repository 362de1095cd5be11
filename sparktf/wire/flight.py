"""Security of a run's Arrow Flight servers and clients: the run's secret in every call, and mutual TLS."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from pyarrow import flight

from sparktf.told import log_of
from sparktf.wire.security import NODE_NAME, TlsMaterial

SECRET_HEADER = b"x-sparktf-secret"

_log = log_of(__name__)


def server_options(secret: str, tls: TlsMaterial | None) -> dict[str, Any]:
    """Returns options of a server that refuses calls without the secret, and other clients at the handshake."""
    options: dict[str, Any] = {"middleware": {"secret": _SecretCheck(secret)}}
    if tls is not None:
        options |= {
            "tls_certificates": [(tls.certificate.encode(), tls.key.encode())],
            "verify_client": True,
            "root_certificates": tls.authority.encode(),
        }
    return options


def client_options(tls: TlsMaterial | None) -> dict[str, Any]:
    if tls is None:
        return {}
    return {
        "tls_root_certs": tls.authority.encode(),
        "cert_chain": tls.certificate.encode(),
        "private_key": tls.key.encode(),
        "override_hostname": NODE_NAME,
    }


def call_options(secret: str, timeout_s: float | None = None) -> flight.FlightCallOptions:
    """Returns the options of a call; without a timeout it may take as long as the peer lives."""
    headers = [(SECRET_HEADER, secret.encode())]
    return flight.FlightCallOptions(headers=headers, **({} if timeout_s is None else {"timeout": timeout_s}))


class _SecretCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call that does not carry the run's secret."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret.encode()

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str | bytes]]) -> None:
        values = headers.get(SECRET_HEADER.decode()) or [b""]
        given = values[0].encode() if isinstance(values[0], str) else values[0]
        if not hmac.compare_digest(given, self._secret):
            _log.warning("refused a call without the run's secret (%s)", info.method)
            raise flight.FlightUnauthenticatedError("wrong or missing secret")
