"""The connections of WebHDFS: requests are signed anew each time, and servers trusted as the cluster says."""

from __future__ import annotations

import http.cookiejar
import json
import re
import ssl
from typing import Any
from urllib.parse import urlsplit

import hdfs
import requests
from hdfs.client import _Request
from requests.adapters import HTTPAdapter

from sparktf.redaction import redacted
from sparktf.storage.credentials import Credentials
from sparktf.told import log_of

_POOL = 32
_REFUSALS = (401, 403)
_NOT_NOW = re.compile(rb"\b(?:Standby|Retriable)Exception\b")
_ONCE = ("RENAME",)
"""Done twice they fail the second time: after a lost answer it is the caller who finds out, before another NameNode is
asked."""


class SignedClient(hdfs.Client):  # type: ignore[misc]
    """HdfsCLI's client: it finds the active NameNode. Requests are signed anew; redirects are ours to follow."""

    # Operations that HdfsCLI has no name for: GETSTATUS and so on.
    _get_status = _Request("GET")
    _get_quota_usage = _Request("GET")
    _get_server_defaults = _Request("GET")

    def __init__(
        self,
        url: str,
        session: requests.Session,
        credentials: Credentials,
        authority: str,
        timeout: tuple[float, float],
    ) -> None:
        super().__init__(url, session=session, timeout=timeout)
        self._credentials = credentials
        self._authority = authority

    def resolve(self, hdfs_path: str) -> str:
        """Returns the path unchanged: HdfsCLI would expand its own markers (`#LATEST`)."""
        return hdfs_path

    def _request(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        response = _unwrapped(self._signed(method, url, **kwargs))
        if _refuses_token(response):
            # It may have been renewed just now.
            response.close()
            self._credentials.forget()
            response = _unwrapped(self._signed(method, url, **kwargs))
        check_response(response, only_foreign=True)
        return response

    def _signed(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        token = self._credentials.token(self._authority)
        who = {"delegation": token} if token else {"user.name": self._credentials.user()}
        kwargs["params"] = {**kwargs["params"], **who}
        kwargs["allow_redirects"] = False
        try:
            response: requests.Response = super()._request(method, url, **kwargs)
        except (requests.ConnectionError, requests.Timeout) as error:
            if kwargs["params"]["op"] not in _ONCE:
                raise  # HdfsCLI asks the next NameNode
            with self._lock:
                if url.startswith(self._urls[0]):
                    self._urls.rotate(-1)
            raise requests.RequestException(str(error), request=error.request) from error
        return response


def _unwrapped(response: requests.Response) -> requests.Response:
    """Returns an answer with the exception by which HdfsCLI asks the next NameNode, if that is why it is refused.

    A NameNode that stands by, or is about to take over, has no tokens to compare: it says so within a refusal.
    """
    found = _NOT_NOW.search(response.content) if response.status_code in _REFUSALS else None
    if found:
        said = {"exception": found.group().decode(), "message": f"{host_of(response.url)} stands by, or takes over"}
        response._content = json.dumps({"RemoteException": said}).encode()
    return response


def _refuses_token(response: requests.Response) -> bool:
    return response.status_code in _REFUSALS and b"InvalidToken" in response.content


def check_response(response: requests.Response, *, only_foreign: bool = False) -> None:
    """Raises HdfsError for an error response, or only for one that is not in WebHDFS's own format."""
    if response.ok:
        return
    try:
        said = json.loads(response.content)["RemoteException"]
        exception, message = str(said["exception"]), str(said["message"])
        if only_foreign:
            return
    except (ValueError, KeyError, TypeError):
        exception = "AccessControlException" if response.status_code in (401, 403) else "ConnectException"
        message = f"HTTP {response.status_code} {response.reason} from {host_of(response.url)}"
    finally:
        response.close()
    raise hdfs.HdfsError(message, exception=exception)


class _Adapter(HTTPAdapter):
    """Connections; those by HTTPS to servers that `trust` knows, where requests has a list of its own."""

    def __init__(self, trust: ssl.SSLContext | None) -> None:
        self._trust = trust
        super().__init__(pool_connections=_POOL, pool_maxsize=_POOL)

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        try:
            return super().send(*args, **kwargs)
        except requests.RequestException as error:
            # Whoever shows a trace shows this error with its causes: the request's address has a token.
            for said in (error, *error.args):
                if isinstance(said, BaseException):
                    said.args = tuple(redacted(part) if isinstance(part, str) else part for part in said.args)
            raise

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> tuple[Any, Any]:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        return host, {"ssl_context": self._trust, "cert_reqs": "CERT_REQUIRED"}

    def cert_verify(self, conn: Any, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        conn.cert_reqs = "CERT_REQUIRED"


def new_session(trust: ssl.SSLContext | None) -> requests.Session:
    """Returns a session without proxies, cookies and users of the environment.

    Args:
        trust: What HTTPS trusts; by default what requests does.
    """
    session = requests.Session()
    log_of("urllib3.connectionpool")  # which logs addresses for whoever looks closely: without tokens from now on
    # Ignore proxies and .netrc of the environment: they are not meant for the cluster.
    session.trust_env = False
    # Hadoop's authentication cookie would keep the first user.
    session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(trust))
    return session


def host_of(url: str) -> str:
    return urlsplit(url).hostname or url
