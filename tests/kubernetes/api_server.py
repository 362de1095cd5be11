"""An API server of Kubernetes: fabric8's, in a JVM of its own, and before it a relay that does what it leaves out."""

from __future__ import annotations

import json
import os
import socket
import sysconfig
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kubernetes.rights import Rights
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

_JARS = os.environ.get("KUBERNETES_JARS", "")
_HEAD_ENDS = b"\r\n\r\n"
_CALL_S = 10.0
FINALIZER = "tests/node"
"""Keeps a pod that is deleted until its processes have ended."""

_AT_ONCE = 65536

Resource = dict[str, Any]
"""A resource of Kubernetes, as JSON has it."""


class ApiServer:
    """Use it as a context manager: it is up inside of it.

    Attributes:
        url: Of its API, for everybody in this network.
        quota: The most pods that may be there at a time; None for any number.
        rights: What pods may ask for, each of which has the service account of the Role in docs/cluster/kubernetes.
        confines_all: Whether others have these rights alone, too, as a driver in client mode. Who submits needs more.
    """

    def __init__(self, address: str, folder: Path) -> None:
        """Starts nothing yet; it will be at this address, and write to this folder."""
        self._address, self._folder = address, folder
        self.url = ""
        self.quota: int | None = None
        self.rights = Rights()
        self.confines_all = False

    def __enter__(self) -> Self:
        # The environment's Spark, whichever the tests run on: the server is made for the client that this one has.
        home = Path(sysconfig.get_path("purelib"), "pyspark")
        port, secret = launch_gateway(
            classpath=f"{_JARS}/*:{home}/jars/*",
            javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self._folder}"],
            die_on_exit=True, enable_auth=True,
        )  # fmt: skip
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
        java = self._gateway.jvm
        mock, parts = java.io.fabric8.kubernetes.client.server.mock, java.io.fabric8.mockwebserver
        dispatcher = mock.KubernetesCrudDispatcher(java.java.util.ArrayList())
        server = mock.KubernetesMockServer(
            parts.Context(), parts.MockWebServer(), java.java.util.HashMap(), dispatcher, False
        )
        server.init(java.java.net.InetAddress.getByName("127.0.0.1"), 0)
        self._behind = ("127.0.0.1", int(server.getPort()))
        self._listener = socket.create_server((self._address, 0))
        self.url = f"http://{self._address}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="api", daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._listener.close()
        self._gateway.shutdown()

    # ---- a client ----

    def call(self, method: str, path: str, body: Resource | None = None) -> Resource:
        """Returns the server's answer. Raises `OSError` if it refuses, or does not answer."""
        request = urllib.request.Request(
            f"http://{self._behind[0]}:{self._behind[1]}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_CALL_S) as answer:
            found: Resource = json.loads(answer.read() or b"{}")
            return found

    def all(self, kind: str) -> list[Resource]:
        """Returns all resources of a kind: "pods"."""
        return list(self.call("GET", f"/api/v1/{kind}").get("items", ()))

    def put(self, kind: str, resource: Resource) -> None:
        """Makes a resource of the namespace "default", or replaces it."""
        place = f"/api/v1/namespaces/default/{kind}"
        name = resource["metadata"]["name"]
        resource["metadata"]["namespace"] = "default"
        if any(there["metadata"]["name"] == name for there in self.all(kind)):
            self.call("PUT", f"{place}/{name}", resource)
        else:
            self.call("POST", place, resource)

    # ---- the relay ----

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(caller,), name="relay", daemon=True).start()

    def _refusal(self, caller: socket.socket, request: _Request) -> str:
        """Returns why a request is refused; "" if it is not."""
        confines = self.confines_all or caller.getpeername()[0] != self._address
        if confines and (reason := self.rights.refusal(request.method, request.path)):
            return reason
        makes_pod = request.method == "POST" and request.path.endswith("/pods")
        if makes_pod and self.quota is not None and len(self.all("pods")) >= self.quota:
            return f"exceeded quota: pods, limited: pods={self.quota}"
        return ""

    def _relay(self, caller: socket.socket) -> None:
        """Hands one request over, and then whatever comes: a watch that becomes a web socket, too."""
        with caller:
            request = _read(caller)
            if request is None:
                return
            if reason := self._refusal(caller, request):
                caller.sendall(_refusal(reason))
                return
            if request.method == "POST" and request.path.endswith("/pods"):
                request.body = _begun(request.body)
            if request.method == "PATCH" and "apply-patch" in request.fields.get("content-type", ""):
                self._apply(request)
            with socket.create_connection(self._behind) as server:
                server.sendall(request.text())
                back = threading.Thread(target=_copy, args=(server, caller), name="answer", daemon=True)
                back.start()
                _copy(caller, server)
                back.join()

    def _apply(self, request: _Request) -> None:
        """Makes a plain request of one that applies a resource: fabric8's server knows no such."""
        path = request.path.partition("?")[0]
        try:
            self.call("GET", path)
        except OSError:
            request.method, request.path = "POST", path.rpartition("/")[0]
        else:
            request.method, request.path = "PUT", path
        request.fields["content-type"] = "application/json"


@dataclass(slots=True)
class _Request:
    """A request of HTTP."""

    method: str
    path: str
    fields: dict[str, str]  # By lower-case name
    body: bytes

    def text(self) -> bytes:
        """Returns it as it is sent: alone on its connection, unless that becomes a web socket."""
        self.fields["content-length"] = str(len(self.body))
        if "upgrade" not in self.fields.get("connection", "").lower():
            self.fields["connection"] = "close"
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.fields.items())]
        return "\r\n".join(lines).encode() + _HEAD_ENDS + self.body


def _read(caller: socket.socket) -> _Request | None:
    """Returns a request; None if the caller leaves before its end."""
    received = b""
    while _HEAD_ENDS not in received:
        if not (more := caller.recv(_AT_ONCE)):
            return None
        received += more
    head, _, body = received.partition(_HEAD_ENDS)
    first, *lines = head.decode().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(fields.get("content-length", 0)):
        body += caller.recv(_AT_ONCE)
    method, path, _ = first.split(" ")
    return _Request(method, path, fields, body)


def now() -> str:
    """Returns the time as resources have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _begun(body: bytes) -> bytes:
    """Returns a new pod as the real server has it.

    Without a status, a thread of Spark's would end. What is deleted ends first: its node takes the finalizer away then.
    """
    pod = json.loads(body)
    pod["metadata"]["finalizers"] = [FINALIZER]
    return json.dumps({**pod, "status": {"phase": "Pending"}}).encode()


def _refusal(message: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
    body = json.dumps({**status, "message": message}).encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\nConnection: close".encode() + _HEAD_ENDS + body


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copies bytes until one side ends."""
    try:
        while data := source.recv(_AT_ONCE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
