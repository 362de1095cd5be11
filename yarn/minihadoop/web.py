"""HTTP to the daemons: no proxies of the user's environment, and a timeout on everything.

A secured cluster asks for Kerberos tickets; there, curl speaks for us (SPNEGO).
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from minihadoop.errors import CommandError

TIMEOUT_S = 10.0
# What an unreachable or starting daemon gives: no connection, or an answer that is none.
UNREACHABLE = (OSError, ValueError, KeyError)
# Which hosts there are, we have made ourselves: their certificates are for those who use the cluster.
_TRUSTING = ssl._create_unverified_context()
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_TRUSTING))


def request(
    method: str,
    url: str,
    body: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
    content_type: str = "application/octet-stream",
    ticket: str | None = None,
) -> bytes:
    """Sends a request and returns the answer's body; redirects of GET are followed.

    Args:
        ticket: KRB5CCNAME of the user who asks, on a secured cluster.

    Raises:
        CommandError: The daemon refused, with its message.
        OSError: It was not reached.
    """
    if ticket is not None:
        return _negotiated(method, url, body, timeout_s, content_type, ticket)
    call = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": content_type})
    try:
        with _OPENER.open(call, timeout=timeout_s) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode("utf-8", "replace")
        raise CommandError(f"{method} {url}: {error.code} {_reason(said)}") from error


def get_json(url: str, timeout_s: float = TIMEOUT_S, ticket: str | None = None) -> Any:
    """Returns the JSON document at an address."""
    return json.loads(request("GET", url, timeout_s=timeout_s, ticket=ticket))


def query(**parameters: str | int) -> str:
    """Returns parameters as the query of an address."""
    return urllib.parse.urlencode(parameters)


def _negotiated(method: str, url: str, body: bytes | None, timeout_s: float, content_type: str, ticket: str) -> bytes:
    command = [
        "curl",
        "--silent",
        "--insecure",
        "--show-error",
        "--location",
        "--noproxy",
        "*",
        "--negotiate",
        "--user",
        ":",
    ]
    command += ["--max-time", f"{timeout_s:g}", "--request", method, "--write-out", "\n%{http_code}"]
    command += ["--header", f"Content-Type: {content_type}", *(["--data-binary", "@-"] if body is not None else [])]
    variables = {**os.environ, "KRB5CCNAME": ticket}
    done = subprocess.run([*command, url], input=body or b"", capture_output=True, check=False, env=variables)
    if done.returncode != 0:
        raise OSError(f"{method} {url}: {done.stderr.decode(errors='replace').strip()}")
    said, _, code = done.stdout.rpartition(b"\n")
    if not code.startswith(b"2"):
        raise CommandError(f"{method} {url}: {code.decode()} {_reason(said.decode('utf-8', 'replace'))}")
    return said


def _reason(said: str) -> str:
    """Returns the message of WebHDFS's and YARN's errors; for others, the whole answer."""
    try:
        remote = json.loads(said)["RemoteException"]
        return f"{remote['exception']}: {remote['message']}"
    except (ValueError, KeyError, TypeError):
        return said.strip()
