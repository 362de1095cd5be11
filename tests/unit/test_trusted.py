"""Whom of a cluster's servers HTTPS is spoken with: what a truststore of Java's says, as its own tool writes it."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparktf.errors import ConfigError
from sparktf.hadoop import HadoopConf
from sparktf.submit.resource_managers import resource_managers
from sparktf.submit.yarn import ResourceManagerApi
from sparktf.trusted import LOCATION, PASSWORD, trusted

WORD = "opensesame"


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(key, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key of a server on this machine, key.pem, its certificate, server.pem, and stores that have it."""
    made = tmp_path_factory.mktemp("stores")
    at, subject = ["-keyout", "key.pem", "-out", "server.pem"], ["-subj", "/CN=localhost"]
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *at, *subject, "-days", "2"]
    run([*request, "-addext", "subjectAltName=DNS:localhost"], made)
    for kind in ("JKS", "JCEKS", "PKCS12"):
        store = ["-keystore", f"store.{kind}", "-storetype", kind, "-storepass", WORD, "-alias", "server"]
        run(["keytool", "-importcert", "-noprompt", "-file", "server.pem", *store], made)
    return made


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=folder)


class Answers(http.server.BaseHTTPRequestHandler):
    """A ResourceManager that knows of no host."""

    def do_GET(self) -> None:
        said = json.dumps({"nodes": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def manager(folder: Path) -> Iterator[dict[str, str]]:
    """The properties of a ResourceManager that speaks HTTPS alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "key.pem")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"localhost:{server.server_port}"
        yield {"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.webapp.https.address": address}
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["JKS", "JCEKS", "PKCS12"])
def test_yarns_https_is_trusted_by_the_clusters_truststore(folder: Path, manager: dict[str, str], kind: str) -> None:
    store = {LOCATION: str(folder / f"store.{kind}"), PASSWORD: WORD}
    assert ResourceManagerApi(resource_managers({**manager, **store})).nodes() == ()


def test_a_server_that_nobody_named_is_not_spoken_with(manager: dict[str, str]) -> None:
    assert ResourceManagerApi(resource_managers(manager)).nodes() is None


@pytest.mark.parametrize("key", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_pem_file_may_be_named_in_place_of_a_store_that_is_not_here(
    folder: Path, manager: dict[str, str], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(key, str(folder / "server.pem"))
    assert ResourceManagerApi(resource_managers({**manager, LOCATION: "/nowhere.jks"})).nodes() == ()


def test_a_store_of_java_is_read_by_nodes_that_have_not_its_password(folder: Path) -> None:
    site = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in secrets(folder).items())
    conf = HadoopConf.from_xml("<configuration/>", f"<configuration>{site}</configuration>").for_nodes()
    assert set(conf.properties) == {LOCATION}
    [certificate] = trusted(conf.properties).get_ca_certs(binary_form=True)
    assert certificate == ssl.PEM_cert_to_DER_cert((folder / "server.pem").read_text())


def secrets(folder: Path) -> dict[str, str]:
    """Returns an ssl-client.xml with a client's own key, which nobody else is to have."""
    own = {"ssl.client.keystore.location": "/key.jks", "ssl.client.keystore.password": WORD}
    return {LOCATION: str(folder / "store.JKS"), PASSWORD: WORD, **own}


def test_what_cannot_be_read_is_named_with_what_to_do(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (folder / "store.JKS").read_bytes()
    for name, content, reason in (
        ("none", None, "No such file"),
        ("cut", whole[:40], "it is cut off"),
        ("longer", whole[:-200], "it is cut off"),
        ("empty", whole[:8] + bytes(4), "it holds no certificate"),
        ("other", b"BCFKS", f"it is neither JKS, PEM nor PKCS12 that {PASSWORD} opens"),
        ("locked", (folder / "store.PKCS12").read_bytes(), f"it is neither JKS, PEM nor PKCS12 that {PASSWORD} opens"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(
            ConfigError, match=f"^{LOCATION}: {tmp_path}/{name} .*{reason}.*: set SSL_CERT_FILE to a PEM"
        ):
            trusted({LOCATION: str(tmp_path / name), PASSWORD: "wrong"})
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other"))
    with pytest.raises(ConfigError, match=f"^SSL_CERT_FILE: {tmp_path}/other cannot be read as PEM"):
        trusted({})
