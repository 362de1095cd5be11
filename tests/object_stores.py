"""An S3 server for tests: SeaweedFS, which keeps the conditions of puts, on ports of its own below a folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

ACCESS_KEY, SECRET_KEY = "the-access-key", "the-secret-key"
_PARTS = ("master", "volume", "filer", "s3")
_START_S = 60.0


class S3Server:
    """One server; its data outlive a kill.

    Attributes:
        endpoint: URL, as `fs.s3a.endpoint` takes it.
        pid: Of its process, once it is started.
    """

    def __init__(self, folder: Path) -> None:
        """Starts nothing yet."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = {"identities": [{"name": "admin", "credentials": keys, "actions": actions}]}
        (folder / "keys.json").write_text(json.dumps(identities))
        ports = _free_ports(2 * len(_PARTS))
        self._ports = dict(zip(_PARTS, ports[: len(_PARTS)], strict=True))
        self._grpc_ports = dict(zip(_PARTS, ports[len(_PARTS) :], strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def hadoop(self) -> dict[str, str]:
        """Returns the keys of Hadoop's configuration by which a client reaches it."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
        }

    def start(self) -> None:
        """Returns once it answers. The first put into a bucket makes it; puts are refused until its volumes are there,
        for a second or two, which a client's retries outlast.
        """
        (self._folder / "data").mkdir(exist_ok=True)
        command = [
            str(Path(sys.executable).with_name("weed")),
            f"-logdir={self._folder}",
            "server",
            f"-dir={self._folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
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
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, process_group=0)
        until = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise AssertionError(f"the server did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kills it, as a power failure does; `start` brings it back with its data."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            for part, port in (*self._ports.items(), *self._grpc_ports.items()):
                for name in (f"seaweedfs-{part}-{port}.sock", f"seaweedfs-{part}-grpc-{port}.sock"):
                    Path("/tmp", name).unlink(missing_ok=True)  # where it has them, whatever it is told

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.endpoint}/healthz", timeout=1).status_code == 200
        except requests.RequestException:
            return False


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Runs a server for a block."""
    server = S3Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
