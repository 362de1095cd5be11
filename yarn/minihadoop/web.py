"""HTTP to the daemons: no proxies of the user's environment, and a timeout on everything."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from minihadoop.errors import CommandError

TIMEOUT_S = 10.0
# What an unreachable or starting daemon gives: no connection, or an answer that is none.
UNREACHABLE = (OSError, ValueError, KeyError)
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(
    method: str,
    url: str,
    body: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
    content_type: str = "application/octet-stream",
) -> bytes:
    """Sends a request and returns the answer's body; redirects of GET are followed.

    Raises:
        CommandError: The daemon refused, with its message.
        OSError: It was not reached.
    """
    call = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": content_type})
    try:
        with _OPENER.open(call, timeout=timeout_s) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode("utf-8", "replace")
        raise CommandError(f"{method} {url}: {error.code} {_reason(said)}") from error


def get_json(url: str, timeout_s: float = TIMEOUT_S) -> Any:
    """Returns the JSON document at an address."""
    return json.loads(request("GET", url, timeout_s=timeout_s))


def query(**parameters: str | int) -> str:
    """Returns parameters as the query of an address."""
    return urllib.parse.urlencode(parameters)


def _reason(said: str) -> str:
    """Returns the message of WebHDFS's and YARN's errors; for others, the whole answer."""
    try:
        remote = json.loads(said)["RemoteException"]
        return f"{remote['exception']}: {remote['message']}"
    except (ValueError, KeyError, TypeError):
        return said.strip()
