"""Questions to a cluster's web servers, which may want a login by Kerberos (SPNEGO)."""

from __future__ import annotations

import base64
import email.message
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPResponse
from typing import NamedTuple
from urllib.parse import urlsplit

from sparktf.driver.spark.spnego import spnego_token
from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS

_COOKIE = "hadoop.auth="
_ALL = ""
"""No server's name: a KDC that does not answer is silent for all of them."""

_SERVERS_ON_THE_WAY = 2
"""The ResourceManager that stands by sends on to the active one; each wants its own login."""


class Page(NamedTuple):
    """An answer of a web server."""

    body: bytes
    date: str | None  # The server's time when it answered, as HTTP writes it; None if it does not tell
    asked_s: float  # Ours, in seconds since 1970: the middle of the question


class ClusterWeb:
    """Reads pages; logs in with the user's ticket where a server asks for that; thread-safe.

    A server's cookie stands for the login from then on. It leaves this object for that server alone.
    """

    def __init__(self, trust: ssl.SSLContext | None, token: Callable[[str], bytes] = spnego_token) -> None:
        """Asks for nothing yet.

        Args:
            trust: For HTTPS; None for what the system trusts.
            token: Returns a token of SPNEGO for a host. Raises `PreflightError`.
        """
        self._cookies = _Cookies()
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trust), self._cookies)
        self._token = token
        self._refused: dict[str, tuple[PreflightError, float]] = {}  # "host:port" -> the last failed login, and when
        self._lock = threading.Lock()

    def read(self, url: str) -> bytes:
        """Returns the page at an address.

        Raises:
            OSError: the server does not answer, or refuses.
            PreflightError: it wants a login by Kerberos, which fails.
        """
        return self._page(url, "GET").body

    def head(self, url: str, *, log_in: bool = True) -> Page:
        """Returns an answer without its body, also of a server that refuses. Raises as `read` else.

        Args:
            log_in: False to leave it at the refusal where a server asks for that.
        """
        began_s = time.time()
        try:
            return self._page(url, "HEAD") if log_in else self._asked(url, {}, "HEAD")
        except urllib.error.HTTPError as error:
            error.close()
            return _page(b"", error.headers, began_s)

    def _page(self, url: str, method: str) -> Page:
        for _ in range(_SERVERS_ON_THE_WAY):
            known = dict(self._cookies.of)
            try:
                return self._asked(url, {}, method)
            except urllib.error.HTTPError as error:
                with error:
                    if not _wants_kerberos(error):
                        raise
                    at = error.url  # behind a redirect, another server's
            with self._lock:
                if self._cookies.of.get(_server(at)) == known.get(_server(at)):  # else another thread has logged in
                    self._log_in(at)
        return self._asked(url, {}, method)

    def _log_in(self, url: str) -> None:
        for server in (_server(url), _ALL):
            refused, since_s = self._refused.get(server, (None, 0.0))
            if refused is not None and time.monotonic() - since_s < KNOBS.web_login_again_s:
                raise refused
        try:
            self._ask_by_token(url)
        except PreflightError as error:
            silent = isinstance(error.__cause__, TimeoutError)
            self._refused[_ALL if silent else _server(url)] = error, time.monotonic()
            raise

    def _ask_by_token(self, url: str) -> None:
        host = urlsplit(url).hostname or ""
        token = base64.b64encode(self._token(host)).decode()
        try:
            self._asked(url, {"Authorization": f"Negotiate {token}"}, "HEAD")
        except urllib.error.HTTPError as error:
            with error:
                if _server(error.url) != _server(url):
                    return  # it let us in, and sent us on to one that wants a login of its own
                if error.code not in (401, 403):
                    raise
            raise PreflightError(
                f"Kerberos: {host} refuses the ticket ({error.code}): klist shows whose it is, and kinit gets another"
            ) from None

    def _asked(self, url: str, headers: Mapping[str, str], method: str) -> Page:
        request, began_s = urllib.request.Request(url, method=method), time.time()
        for name, value in headers.items():
            request.add_unredirected_header(name, value)  # else the server that a redirect names would get it, too
        with self._opener.open(request, timeout=KNOBS.resource_manager_call_s) as answer:
            return _page(answer.read(), answer.headers, began_s)


class _Cookies(urllib.request.BaseHandler):
    """Keeps each server's cookie of a login, and shows it to that server."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        """ "host:port" -> "hadoop.auth=..." """

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        cookie = self.of.get(_server(request.full_url))
        if cookie is not None:
            request.add_unredirected_header("Cookie", cookie)
        return request

    def http_response(self, request: urllib.request.Request, response: HTTPResponse) -> HTTPResponse:
        for line in response.headers.get_all("Set-Cookie") or ():
            cookie = line.partition(";")[0].strip()
            if cookie.startswith(_COOKIE) and cookie.removeprefix(_COOKIE).strip('"'):  # it is empty in a refusal
                self.of[_server(request.full_url)] = cookie
        return response

    https_request, https_response = http_request, http_response


def _page(body: bytes, headers: email.message.Message, began_s: float) -> Page:
    return Page(body, headers.get("Date"), (began_s + time.time()) / 2)


def _server(url: str) -> str:
    return urlsplit(url).netloc


def _wants_kerberos(error: urllib.error.HTTPError) -> bool:
    asked = error.headers.get_all("WWW-Authenticate") or ()
    return error.code == 401 and any(line.strip().lower().startswith("negotiate") for line in asked)
