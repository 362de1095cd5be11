"""Questions to web servers that want Kerberos: the ticket is shown once, and the cookie to the server that gave it."""

from __future__ import annotations

import base64
import gc
import http.server
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from dags.servers import serving

from sparktf.driver.spark import spnego
from sparktf.driver.spark.kerberos_reasons import login_fault
from sparktf.driver.spark.kerberos_wait import answer_in_time
from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS
from sparktf.submit.cluster_web import ClusterWeb
from sparktf.submit.resource_managers import ResourceManagers
from sparktf.submit.yarn import ResourceManagerApi

TICKET = b"my ticket"


class Guard(http.server.BaseHTTPRequestHandler):
    """Lets in who shows the ticket, or the cookie that it got for that; tells nobody anything else."""

    server: GuardedServer

    def do_GET(self) -> None:
        server = self.server
        shown, cookie = self.headers.get("Authorization", ""), self.headers.get("Cookie", "")
        server.seen.append((shown, cookie))
        fresh = shown == f"Negotiate {base64.b64encode(TICKET).decode()}"
        if not fresh and cookie != f'hadoop.auth="{server.secret}"':
            self._answer(403 if shown else 401, {"WWW-Authenticate": "Negotiate", "Set-Cookie": "hadoop.auth=; Path=/"})
            return
        headers = {"Set-Cookie": f'hadoop.auth="{server.secret}"; Path=/; HttpOnly'} if fresh else {}
        if server.active:
            self._answer(307, {**headers, "Location": server.active + self.path})
        else:
            self._answer(200, headers, b'{"nodes": null}')

    do_HEAD = do_GET

    def _answer(self, code: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        del args


class GuardedServer(http.server.ThreadingHTTPServer):
    """A server with its own secret; `active` is the address of the one that it sends everybody to."""

    def __init__(self, secret: str, active: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Guard)
        self.secret = secret
        self.active = active
        self.seen: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def logins(self) -> int:
        return sum(bool(shown) for shown, _ in self.seen)


@pytest.fixture
def active() -> Iterator[GuardedServer]:
    with serving(GuardedServer("a=1&s=x")) as server:
        yield server


def test_the_ticket_is_shown_once_and_a_cookie_that_has_ended_is_replaced(active: GuardedServer) -> None:
    web = ClusterWeb(None, lambda host: TICKET)
    assert {web.read(active.url) for _ in range(3)} == {b'{"nodes": null}'}
    assert active.logins == 1
    active.secret = "a=2&s=y"
    assert web.read(active.url) == b'{"nodes": null}'
    assert active.logins == 2
    assert [cookie for _, cookie in active.seen if cookie][-1] == 'hadoop.auth="a=2&s=y"'


def test_each_of_two_resource_managers_sees_what_is_its_own(active: GuardedServer) -> None:
    with ExitStack() as stack:
        standby = stack.enter_context(serving(GuardedServer("standby's", active.url)))
        web = ClusterWeb(None, lambda host: TICKET)
        assert {web.read(f"{standby.url}/ws") for _ in range(2)} == {b'{"nodes": null}'}
    assert standby.logins == active.logins == 1
    assert {cookie for _, cookie in standby.seen} == {"", 'hadoop.auth="standby\'s"'}
    assert {cookie for _, cookie in active.seen} == {"", 'hadoop.auth="a=1&s=x"'}


def test_questions_at_once_share_a_login(active: GuardedServer) -> None:
    def slowly(host: str) -> bytes:
        time.sleep(0.05)
        return TICKET

    web = ClusterWeb(None, slowly)
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(web.read, [active.url] * 4))) == 4
    assert active.logins == 1


def test_a_login_that_fails_is_told_and_not_tried_by_each_question(
    active: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def nothing(host: str) -> bytes:
        tried.append(host)
        raise PreflightError("Kerberos: there is no ticket")

    api = ResourceManagerApi(ResourceManagers((), (active.url,), None), ClusterWeb(None, nothing))
    assert (api.nodes(), api.queues(), api.refusal) == (None, None, "Kerberos: there is no ticket")
    assert tried == ["127.0.0.1"]
    monkeypatch.setattr(KNOBS, "web_login_again_s", 0.0)
    assert api.nodes() is None
    assert len(tried) == 2


def test_a_silent_kdc_is_not_asked_for_each_server(active: GuardedServer) -> None:
    tried: list[str] = []

    def silent(host: str) -> bytes:
        tried.append(host)
        raise PreflightError("Kerberos: no answer") from TimeoutError()

    with ExitStack() as stack:
        other = stack.enter_context(serving(GuardedServer("other's")))
        api = ResourceManagerApi(ResourceManagers((), (active.url, other.url), None), ClusterWeb(None, silent))
        assert (api.nodes(), api.refusal, len(tried)) == (None, "Kerberos: no answer", 1)


def test_a_ticket_that_is_refused_is_named_without_it(active: GuardedServer) -> None:
    with pytest.raises(PreflightError, match=r"^Kerberos: 127.0.0.1 refuses the ticket \(403\): klist") as caught:
        ClusterWeb(None, lambda host: b"another's").read(active.url)
    assert base64.b64encode(b"another's").decode() not in str(caught.value)


def test_a_silent_kdc_is_waited_for_no_longer_than_told(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = threading.Event()
    monkeypatch.setattr(KNOBS, "web_login_s", 0.01)
    monkeypatch.setattr(spnego, "_token", lambda host: silent.wait())
    with pytest.raises(PreflightError, match=r"no login to nn: no answer within 0\.01 s: see whether the realm's KDC"):
        spnego.spnego_token("nn")
    silent.set()
    with pytest.raises(ZeroDivisionError):
        answer_in_time(lambda: 1 // 0, 5.0)


def test_without_a_way_to_log_in_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spnego, "_library", lambda: None)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(PreflightError, match=r"neither Java nor Python's gssapi: .* JAVA_HOME, or the extra sparktf\["):
        spnego.spnego_token("nn")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_java_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    java.chmod(0o755)
    monkeypatch.setattr(spnego, "_library", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PreflightError, match=rf"no login to nn: {java} does not start: see what it says to -version"):
        spnego.spnego_token("nn")
    gc.collect()  # what py4j leaves open


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "(Mechanism: Attempt to obtain new INITIATE credentials failed! (null))",
            "no ticket, or it has expired",
        ),
        ("SPNEGO cannot find mechanisms to negotiate\0", "no ticket, or it has expired"),
        ("Minor (1): Server HTTP/nn@LAKE not found in Kerberos database", "the ticket's realm does not know"),
        ("Something new\n at line 2", "Something new"),
    ],
)
def test_what_the_libraries_say_is_told_in_plain_words(said: str, told: str) -> None:
    assert told in login_fault(OSError(said)).told()
