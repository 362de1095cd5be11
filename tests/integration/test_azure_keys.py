"""How an account on Azure is reached: by TLS of an authority of one's own, and by a token for one container."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest
from object_stores import ACCOUNT, ACCOUNT_KEY, AzureServer, running

from sparktf.errors import StorageError, StoragePermissionError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems

VERSION, UNTIL = "2021-06-08", "2099-01-01T00:00:00Z"


class TlsServer(AzureServer):
    """One with TLS, by a certificate that lies in a folder: server.pem, of server.key."""

    def __init__(self, folder: Path, keys: Path) -> None:
        super().__init__(folder)
        self._keys = keys
        self.root = self.root.replace("abfs:", "abfss:")
        self.endpoint = self.endpoint.replace("http:", "https:")

    def hadoop(self, endpoint: str = "") -> dict[str, str]:
        """See `StoreServer`."""
        properties = super().hadoop(endpoint)
        del properties["fs.azure.always.use.https"]
        return properties

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        files = [f"--cert={self._keys / 'server.pem'}", f"--key={self._keys / 'server.key'}"]
        super()._run([*command, *files], environment)


def make_keys(folder: Path) -> None:
    """Makes an authority, ca.pem, and a certificate of this machine that it has signed."""
    (folder / "of").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    new = ["-newkey", "rsa:2048", "-nodes"]
    signed_by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "of", "-days", "2"]
    for command in (
        ["req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority"],
        ["req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1"],
        ["x509", "-req", "-in", "server.csr", *signed_by, "-out", "server.pem"],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True, cwd=folder)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[TlsServer]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REQUESTS_CA_BUNDLE", str(keys / "ca.pem"))
        with running(TlsServer(tmp_path_factory.mktemp("azure"), keys)) as server:
            server.container("bucket")
            yield server


def open_runs(server: TlsServer, properties: dict[str, str]) -> Storage:
    return FileSystems(HadoopConf(properties=properties)).open_runs(server.root, deadline_s=1)


def token_of(rights: str) -> str:
    """Returns a token for the container, signed by the account's key."""
    scope = f"/blob/{ACCOUNT}/bucket"
    signed = "\n".join([rights, "", UNTIL, scope, "", "", "", VERSION, "c", "", "", "", "", "", "", ""])
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    return urlencode({"sp": rights, "se": UNTIL, "sv": VERSION, "sr": "c", "sig": signature})


def by_token(server: TlsServer, rights: str) -> Storage:
    properties, host = server.hadoop(), f"{ACCOUNT}.dfs.core.windows.net"
    del properties[server.secret]
    properties |= {f"fs.azure.account.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": token_of(rights)}
    return open_runs(server, properties)


def test_a_certificate_that_nobody_vouches_for_is_said_to_be_one(server: TlsServer) -> None:
    with pytest.raises(
        StorageError, match=r"https://127\S+ has a certificate that nobody vouches for \(UnknownIssuer\)"
    ):
        open_runs(server, server.hadoop()).read_bytes(f"{server.root}/x")


def test_a_container_is_reached_by_tls_and_a_token_for_it(
    server: TlsServer, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(keys / "ca.pem"))
    root = f"{server.root}/runs"
    storage = by_token(server, "rwdl")
    storage.keep_names(root)
    storage.probe(root)
    storage.write_bytes(f"{root}/a/b", b"1")
    storage.rename(f"{root}/a", f"{root}/c")
    storage.write_bytes(f"{root}/d", b"1")
    storage.delete(f"{root}/d")
    assert open_runs(server, server.hadoop()).read_bytes(f"{root}/c/b") == b"1"
    with pytest.raises(StoragePermissionError, match="AuthorizationPermissionMismatch") as refused:
        by_token(server, "rl").write_bytes(f"{root}/c/b", b"2")
    assert "sig=" not in str(refused.value)
