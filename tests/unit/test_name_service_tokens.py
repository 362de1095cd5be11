"""Delegation tokens of a name service: which path has which, and NameNodes that do not know them for the moment."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from dags.servers import serving

from sparktf.driver.spark.driver_tokens import spelled
from sparktf.driver.spark.login import no_token
from sparktf.driver.spark.ticket import TicketCredentials
from sparktf.errors import ConfigError, StorageUnavailableError
from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.storage.base import Timeouts
from sparktf.storage.credentials import (
    TOKEN_FILE,
    TOKENS,
    FileCredentials,
    own_tokens_hidden,
    token_for,
    write_token_file,
)
from sparktf.storage.hdfs.webhdfs import WebHdfs
from sparktf.storage.tokens import HDFS_KIND, Token, token_file

TWO_SERVICES = HadoopConf(
    properties={
        "fs.defaultFS": "hdfs://lake",
        "dfs.nameservices": "lake, far, torn",
        "dfs.ha.namenodes.lake": "a,b",
        "dfs.namenode.rpc-address.lake.a": "nn1.test:8020",
        "dfs.namenode.rpc-address.lake.b": "nn2.test:8020",
        "dfs.ha.namenodes.far": "a,b",
        "dfs.namenode.rpc-address.far.a": "nn1.test:8022",
        "dfs.namenode.rpc-address.far.b": "nn3.test:8020",
        "dfs.ha.namenodes.torn": "a",
    }
)
"""Two pairs, of which a NameNode each runs on nn1, and one without addresses."""


def token(service: str, password: bytes = b"p") -> Token:
    return Token(service.encode(), password, HDFS_KIND, service)


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine whose name server knows nobody; returns what it was asked."""
    asked: list[str] = []

    def refused(host: str, *of: object, **more: object) -> None:
        del of, more
        asked.append(host)
        raise OSError(host)

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    return asked


def test_each_namenode_of_a_service_has_the_token_of_its_service_and_no_other(no_names: list[str]) -> None:
    lake, far = token("ha-hdfs:lake"), token("ha-hdfs:far")
    found = spelled([lake, far], TWO_SERVICES)
    for service, authorities in ((lake, ["lake", "nn1.test:8020", "nn2.test:8020"]), (far, ["far", "nn1.test:8022"])):
        for authority in authorities:
            signed = token_for(authority, found)
            assert signed is not None
            assert signed.identifier == service.identifier
    # hdfs-native looks for exactly these.
    assert {"ha-hdfs:lake", "ha-hdfs:far", "nn1.test:8020", "nn2.test:8020"} <= {token.service for token in found}
    assert no_names == [], "they are spelled as they are asked for"
    assert token_for("nn2.test:9870", found) is not None, "the web server of one of them"
    assert token_for("torn", found) is None


def test_a_service_without_a_token_has_none_of_the_others(no_names: list[str]) -> None:
    found = spelled([token("ha-hdfs:lake")], TWO_SERVICES)
    assert [token_for(authority, found) for authority in ("far", "nn3.test:8020")] == [None, None]
    assert "lake" not in no_names, "a name service is no host"


def test_a_name_is_resolved_once_for_all_requests_that_a_token_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YARN's own file has addresses alone."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def counted(host: str, *of: object, **more: object) -> object:
        asked.append(host)
        return real(host, *of, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", counted)
    place = tmp_path / "tokens"
    write_token_file(place, token_file([token("127.0.0.1:8020", b"old")]))
    credentials = FileCredentials([place])
    signed = {credentials.token("localhost:8020") for _ in range(3)}
    assert asked == ["localhost"]
    write_token_file(place, token_file([token("127.0.0.1:8020", b"new")]))
    assert credentials.token("localhost:8020") not in signed
    assert asked == ["localhost"] * 2


class NameNode(BaseHTTPRequestHandler):
    """Answers as Hadoop's does under Kerberos: whether it knows a token depends on its role."""

    STANDS_BY = "org.apache.hadoop.security.token.SecretManager$InvalidToken: StandbyException"
    TAKES_OVER = "org.apache.hadoop.ipc.RetriableException: token (...) can't be found in cache"
    says = ""
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        self.asked.extend(parse_qs(urlsplit(self.path).query)["delegation"])
        content = (
            f'{{"RemoteException": {{"exception": "SecurityException", "javaClassName": "java.lang.SecurityException", '
            f'"message": "Failed to obtain user group information: {self.says}"}}}}'
            if self.says
            else '{"FileStatus": {"pathSuffix": "", "type": "FILE", "length": 3, "modificationTime": 1}}'
        ).encode()
        self.send_response(403 if self.says else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *of: object) -> None:
        del of


def namenode(saying: str) -> type[NameNode]:
    """Returns a NameNode that refuses with these words; "": that takes every token."""

    class One(NameNode):
        says = saying
        asked: ClassVar[list[str]] = []

    return One


@pytest.mark.parametrize("says", [NameNode.STANDS_BY, NameNode.TAKES_OVER])
def test_a_namenode_that_stands_by_refuses_no_token_the_other_one_is_asked(tmp_path: Path, says: str) -> None:
    first, second = namenode(says), namenode("")
    write_token_file(tmp_path / "tokens", token_file([token("ha-hdfs:lake")]))
    with ExitStack() as stack:
        servers = [ThreadingHTTPServer(("127.0.0.1", 0), node) for node in (first, second)]
        urls = [f"http://127.0.0.1:{stack.enter_context(serving(one)).server_port}" for one in servers]
        timeouts = Timeouts()
        web = WebHdfs("hdfs://lake", urls, FileCredentials([tmp_path / "tokens"]), timeouts, 0o22, None)
        assert [web.status("access", "/x").nbytes for _ in range(2)] == [3, 3]
        assert (len(first.asked), len(second.asked)) == (1, 2), "the active one is asked first from then on"
        second.says = says
        with pytest.raises(StorageUnavailableError, match=r"cannot access hdfs://lake/x: .*(active|takes over)"):
            web.status("access", "/x")


class Asking(TicketCredentials):
    """A ticket by which the tokens come that are set here."""

    def __init__(self) -> None:
        super().__init__(TWO_SERVICES)
        self.given = iter([b"old", b"new"])

    def _asked(self) -> bytes:
        password = next(self.given)
        services = [urlsplit(cluster).netloc for cluster in self._clusters]
        return token_file([token(f"ha-hdfs:{service}", password) for service in services])


def test_a_command_that_outlives_its_tokens_asks_for_others_once_they_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = Asking()
    old = credentials.token("lake")
    credentials.forget()
    assert credentials.token("lake") == old, "one that was given just now would be refused again"
    monkeypatch.setattr(KNOBS, "token_poll_s", 0.0)
    assert credentials.token("lake") == old, "nobody has refused it since"
    credentials.forget()
    assert credentials.token("lake") == token("ha-hdfs:lake", b"new").url_string()


def test_a_command_asks_for_tokens_of_another_name_service_once_it_opens_a_path_there() -> None:
    credentials = Asking()
    lake = credentials.token("lake")
    assert credentials.token("nn9.test:8020") is None, "nobody knows whether it is a NameNode"
    assert credentials.token("lake") == lake
    assert credentials.token("far") == token("ha-hdfs:far", b"new").url_string()
    assert credentials.token("lake") == token("ha-hdfs:lake", b"new").url_string()


@pytest.mark.parametrize("says", ["java.net.UnknownHostException: lake", "Couldn't create proxy provider class x.Y"])
def test_who_is_led_nowhere_is_not_sent_for_a_ticket(says: str) -> None:
    message = str(no_token(OSError(f"java.io.IOException: {says}")))
    assert "leads to no NameNode" in message
    assert "dfs.ha.namenodes" in message
    assert "kinit" not in message


def test_a_name_service_without_addresses_is_told_before_java_is_asked() -> None:
    torn = HadoopConf(properties={**TWO_SERVICES.properties, "fs.defaultFS": "hdfs://torn"})
    with pytest.raises(ConfigError, match=r"hdfs://torn: .* has no dfs.namenode.rpc-address.torn.a: add it"):
        TicketCredentials(torn).token("torn")


def test_a_jvm_that_is_started_does_not_find_the_tokens_that_hdfs_native_was_given_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With tokens for its user, Hadoop's client asks for no others: it is refused without trying its ticket."""
    own, given = str(Path("a", TOKENS)), "b/container_tokens"
    for path, seen in ((own, None), (given, given)):
        monkeypatch.setenv(TOKEN_FILE, path)
        with own_tokens_hidden():
            assert os.environ.get(TOKEN_FILE) == seen
        assert os.environ[TOKEN_FILE] == path
