"""Delegation tokens: Hadoop's files of them, the one for a cluster, and what a process does as they change."""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import threading
import traceback
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from dags.servers import serving
from hdfs import HdfsError

from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.driver_tokens import DriverTokens, are_stale, handing_out, newest
from sparktf.driver.spark.login import no_token, tokens_in_time
from sparktf.errors import PreflightError
from sparktf.executor.handed_tokens import HandedTokens, TaskAccess
from sparktf.hadoop import HadoopConf, act_as
from sparktf.knobs import KNOBS
from sparktf.storage.credentials import (
    TOKEN_FILE,
    FileCredentials,
    SimpleCredentials,
    credentials_here,
    own_token_path,
    process_user,
    token_for,
    write_token_file,
)
from sparktf.storage.hdfs.webhdfs_client import SignedClient, new_session
from sparktf.storage.store_keys import key_file
from sparktf.storage.tokens import HDFS_KIND, Token, TokenFormatError, edition_of, parse_tokens, token_file
from sparktf.wire.control import Action, AgentHeartbeat, Order, Orders

# Written by Hadoop's own Credentials: a token of HDFS, one of YARN with long fields, and a secret key.
IDENTIFIER = bytes.fromhex("0010616c6963652f65646765405245414c4d047961726e008a01a21d3af9228a01a241477d228e012c07")
WRITTEN = b"".join(
    [
        b"HDTS\0\x02",
        b"\x0d10.0.0.1:8020\x2a" + IDENTIFIER + b"\x14" + b"p" * 20 + b"\x15HDFS_DELEGATION_TOKEN\x0d10.0.0.1:8020",
        b"\x02rm\x8f\xc8" + b"x" * 200 + b"\x8f\x82" + b"q" * 130 + b"\x13RM_DELEGATION_TOKEN\x0d10.0.0.1:8032",
        b"\x01\x0bsparkCookie\x28" + b"s" * 40,
    ]
)
# As its `encodeToUrlString` gives them.
OF_HDFS = (
    "KgAQYWxpY2UvZWRnZUBSRUFMTQR5YXJuAIoBoh06-SKKAaJBR30ijgEsBxRwcHBwcHBwcHBwcHBwcHBwcHBwcBVIREZTX0RFTEVHQVRJT05fVE9L"
    "RU4NMTAuMC4wLjE6ODAyMA"
)


def token(service: str, password: bytes = b"p") -> Token:
    return Token(IDENTIFIER, password, HDFS_KIND, service)


def test_a_file_of_hadoops_is_read_and_its_token_told_as_webhdfs_takes_it() -> None:
    of_hdfs, of_yarn = parse_tokens(WRITTEN)
    assert (of_hdfs.kind, of_hdfs.service, of_hdfs.owner()) == (HDFS_KIND, "10.0.0.1:8020", "alice/edge@REALM")
    assert of_hdfs.url_string() == OF_HDFS
    assert (of_yarn.kind, len(of_yarn.identifier), len(of_yarn.password)) == ("RM_DELEGATION_TOKEN", 200, 130)
    assert "ppp" not in repr(of_hdfs)


def test_a_file_of_ours_is_hadoops_without_aliases_and_secrets() -> None:
    found = parse_tokens(WRITTEN)
    assert parse_tokens(token_file(found)) == found
    assert b"sparkCookie" not in token_file(found)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ends in the middle"),
        (b"PK\x03\x04 a zip", "does not begin as"),
        (b"HDTS\x01\x0a", "of version 1"),
        (b"HDTS\x00\x87", "negative length"),
        *((WRITTEN[:length], "ends in the middle") for length in range(4, len(WRITTEN) - 60, 23)),
    ],
)
def test_what_is_no_token_file_is_told_apart(content: bytes, said: str) -> None:
    with pytest.raises(TokenFormatError, match=said):
        parse_tokens(content)


@pytest.mark.parametrize(
    ("authority", "service"),
    [
        ("127.0.0.1:8020", "127.0.0.1:8020"),
        ("localhost:8020", "127.0.0.1:8020"),
        ("lake", "ha-hdfs:lake"),
        ("localhost:9870", "127.0.0.1:8020"),  # the web server of the same host
        ("10.9.9.9:8020", None),
        ("other", None),
    ],
)
def test_a_cluster_has_the_token_of_its_service(authority: str, service: str | None) -> None:
    known = [token("10.0.0.1:8020"), token("127.0.0.1:8020"), token("ha-hdfs:lake")]
    found = token_for(authority, known)
    assert (found and found.service) == service


def test_tokens_are_read_again_when_they_change_and_the_newest_place_comes_first(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    credentials = FileCredentials([new, old])
    assert (credentials.user(), credentials.token("127.0.0.1:8020")) == (process_user(), None)
    assert (credentials.edition(), credentials.token_file()) == ("", "")
    told = []
    for place, password in ((old, b"1"), (new, b"2"), (new, b"3")):
        write_token_file(place, token_file([token("127.0.0.1:8020", password)]))
        told.append((credentials.token("127.0.0.1:8020"), credentials.edition(), credentials.token_file()))
    assert [path for *_, path in told] == [str(old), str(new), str(new)]
    assert len({said for said, *_ in told}) == len({edition for _, edition, _ in told}) == 3
    assert credentials.user() == "alice"
    new.write_bytes(b"half")
    assert credentials.token("127.0.0.1:8020") == told[0][0]


def test_a_token_file_is_its_owners_alone(tmp_path: Path) -> None:
    write_token_file(tmp_path / "tokens", b"1")
    write_token_file(tmp_path / "tokens", b"2")
    assert (tmp_path / "tokens").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_a_folder_for_tokens_is_made_with_the_first_file_is_its_owners_alone_and_goes_with_who_wanted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Owner:
        pass

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    owner = Owner()
    path = own_token_path(owner)
    assert list(tmp_path.iterdir()) == [], "a process that never writes one may be killed"
    write_token_file(path, b"1")
    assert list(tmp_path.iterdir()) == [path.parent]
    assert path.parent.stat().st_mode & 0o777 == 0o700
    del owner
    assert list(tmp_path.iterdir()) == []


def test_an_executors_processes_find_what_its_agent_was_handed_before_what_yarn_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.delenv(TOKEN_FILE, raising=False)
    assert isinstance(credentials_here(), SimpleCredentials)
    given = tmp_path / "container_tokens"
    given.write_bytes(WRITTEN)
    monkeypatch.setenv(TOKEN_FILE, str(given))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    process = credentials_here()
    assert process.token("10.0.0.1:8020") == OF_HDFS
    assert process.token("10.0.0.1:8032") == OF_HDFS, "of HDFS alone"
    handed, content = HandedTokens(tmp_path), token_file([token("10.0.0.1:8020", b"new")])
    handed.take(base64.b64encode(content).decode())
    assert handed.edition == edition_of(content) != ""
    assert process.token("10.0.0.1:8020") == token("10.0.0.1:8020", b"new").url_string()


def test_a_task_puts_down_what_its_closure_has_unless_something_newer_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_FILE, raising=False)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    older, newer = (replace(token("10.0.0.1:8020"), identifier=b"\0\0\0\0%c" % ms) for ms in (5, 6))
    for given, found in ((older, older), (newer, newer), (older, newer)):
        access = TaskAccess(HadoopConf(), token_file([given]), key_file({f"fs.s3a.{given is newer}.key": "k"}))
        assert repr(access) == "TaskAccess(hadoop=HadoopConf())"
        systems = access.file_systems()
        assert systems.credentials.token("10.0.0.1:8020") == found.url_string()
    assert dict(systems.keys.properties("s3a://b")) == {"fs.s3a.True.key": "k", "fs.s3a.False.key": "k"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert TaskAccess(HadoopConf()).file_systems().credentials.token("10.0.0.1:8020") == newer.url_string()


def test_a_process_acts_as_its_proxy_user_else_hadoops_else_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_PROXY_USER", raising=False)
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert process_user() == "etl"
    act_as(None)
    assert process_user() == "etl"
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    act_as("alice")
    assert process_user() == SimpleCredentials().user() == "alice"


@pytest.mark.parametrize("error", [KeyError, OSError], ids=["before Python 3.13", "since"])
def test_a_user_id_without_a_name_goes_by_that_of_sparks_pods_else_by_its_number(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def nameless() -> str:
        raise error("getpwuid(): uid not found: 4711")

    for name in ("HADOOP_PROXY_USER", "HADOOP_USER_NAME", "SPARK_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("getpass.getuser", nameless)
    assert process_user() == str(os.geteuid())
    monkeypatch.setenv("SPARK_USER", "etl")
    assert process_user() == "etl"


def test_the_user_of_a_token_file_is_the_one_that_the_clusters_rules_make(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(WRITTEN)
    assert FileCredentials([path]).user() == "alice"
    assert FileCredentials([path], "RULE:[2:$2_$1] DEFAULT").user() == "edge_alice"


class Handed(DriverTokens):
    """Tokens as of a driver whose JVM has these."""

    def __init__(self, held: bytes) -> None:
        self.held = held

    def content(self) -> bytes:
        return self.held


def test_an_agents_heartbeat_is_answered_with_tokens_that_it_does_not_have_and_no_text_form_shows_them() -> None:
    tokens = Handed(token_file([token("10.0.0.1:8020")]))
    handlers = {Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, lambda _: Orders(order=Order.WAIT))}
    handed = handing_out(tokens, handlers)[Action.AGENT_HEARTBEAT]
    first = handed.answer(AgentHeartbeat(agent="a", number=1, address="h:1"))
    assert isinstance(first, Orders)
    assert base64.b64decode(first.tokens) == tokens.held
    assert first.tokens not in repr(first)
    again = handed.answer(AgentHeartbeat(agent="a", number=2, address="h:1", tokens=edition_of(tokens.held)))
    assert isinstance(again, Orders)
    assert not again.tokens
    assert handing_out(SimpleCredentials(), handlers) is handlers


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("... Client cannot authenticate via:[TOKEN, KERBEROS]", "there is no ticket: get"),
        (
            "GSS initiate failed [Caused by (Mechanism level: Failed to find any Kerberos tgt)]",
            "there is no ticket, or it has expired: get",
        ),
        (
            "GSS initiate failed [Caused by (Mechanism level: Connection refused)]",
            "KDC refuses connections: see whether",
        ),
        ("(Mechanism level: Receive timed out)", "the KDC does not answer: see whether"),
        ("User: etl@R is not allowed to impersonate bob", "may not act as another user: have it allowed"),
        ("Clock skew too great (37)", "differ by more than five minutes"),
        ("Server not found in Kerberos database (7)", "realm does not know this cluster"),
        ("something else entirely", "something else entirely: get"),
    ],
)
def test_who_gets_no_token_is_told_why_in_one_line(
    said: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    message = str(no_token(OSError(f"java.io.IOException: {said}")))
    assert message.startswith("Kerberos: HDFS gives no token: ")
    assert why in message
    assert "\n" not in message


def test_a_kdc_that_is_silent_is_waited_for_no_longer_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java waits for minutes, in a call that nothing ends."""
    assert tokens_in_time(lambda: 7) == 7
    with pytest.raises(PreflightError, match="gives no token: no more"):
        tokens_in_time(partial(_raise, OSError("no more")))
    with pytest.raises(ZeroDivisionError):
        tokens_in_time(partial(_raise, ZeroDivisionError()))
    monkeypatch.setattr(KNOBS, "login_s", 0.05)
    goes_on = threading.Event()
    with pytest.raises(PreflightError, match=r"neither the KDC nor HDFS answers within 0\.05 s: see"):
        tokens_in_time(goes_on.wait)
    goes_on.set()


def _raise(error: Exception) -> None:
    raise error


def test_a_token_in_the_address_of_a_request_is_neither_in_its_error_nor_in_a_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Java's and Spark's traces show the whole chain of errors, and Spark's Python workers log what they like."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    caplog.set_level(logging.DEBUG)
    session = new_session(None)
    with pytest.raises(requests.ConnectionError) as raised:
        session.put(f"http://127.0.0.1:{port}/webhdfs/v1/lake?op=CREATE&delegation={OF_HDFS}&overwrite=false")
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Answering)) as web:
        port = web.server_port
        session.get(f"http://127.0.0.1:{port}/webhdfs/v1/lake?op=OPEN&delegation={OF_HDFS}")
    said = "".join(traceback.format_exception(raised.value))
    assert "/webhdfs/v1/lake?op=CREATE" in said
    assert "/webhdfs/v1/lake?op=OPEN" in caplog.text
    assert OF_HDFS[:8] not in said + caplog.text
    assert OF_HDFS[:8] not in repr(raised.value)


def test_a_request_whose_token_is_refused_is_made_once_more_with_the_one_that_has_come(tmp_path: Path) -> None:
    place = tmp_path / "tokens"
    old, new = token("127.0.0.1:8020", b"old"), token("127.0.0.1:8020", b"new")

    class NameNode(Answering):
        """Takes the new token alone; the file gets it while the request with the old one is on its way."""

        taken: str | None = new.url_string()
        asked: ClassVar[list[str]] = []

        def do_GET(self) -> None:
            [signed] = parse_qs(urlsplit(self.path).query)["delegation"]
            self.asked.append(signed)
            write_token_file(place, token_file([new]))
            if signed == self.taken:
                self.answer(200, {"FileStatus": {"length": 3}})
            else:
                self.answer(403, {"RemoteException": {"exception": "InvalidToken", "message": "token is expired"}})

    write_token_file(place, token_file([old]))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), NameNode)) as web:
        port = web.server_port
        client = SignedClient(
            f"http://127.0.0.1:{port}", new_session(None), FileCredentials([place]), "127.0.0.1:8020", (9.0, 9.0)
        )
        assert client.status("/lake")["length"] == 3
        assert NameNode.asked == [old.url_string(), new.url_string()]
        NameNode.taken = None
        with pytest.raises(HdfsError, match="token is expired"):
            client.status("/lake")
        assert NameNode.asked[2:] == [new.url_string()] * 2


class Answering(BaseHTTPRequestHandler):
    """Answers each request with nothing."""

    def do_GET(self) -> None:
        self.answer(200, {})

    def answer(self, code: int, said: dict[str, Any]) -> None:
        content = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *of: object) -> None:
        del of


def test_of_tokens_the_newest_are_taken_and_stale_ones_are_asked_for_anew() -> None:
    (given,) = [one for one in parse_tokens(WRITTEN) if one.kind == HDFS_KIND]
    issued_s = 1795786733.858
    assert given.issued_s() == pytest.approx(issued_s)
    older = replace(given, identifier=b"\0\0\0\0\x05")
    assert newest((older,), (), (given,)) == (given,)
    assert newest((), ()) == ()
    assert are_stale((), 20, issued_s)
    assert [are_stale((older, given), 20, issued_s + age) for age in (0, 16.9, 17.1, 21)] == [False, False, True, True]
