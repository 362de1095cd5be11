"""A node of Kubernetes: each pod is a process with a network, an address and a host's name of its own.

As in Kubernetes, no pod's name is an address, a service's is, and a pod's end takes all of its processes along. The
image of all containers is this machine's files.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyspark
from kubernetes.api_server import ApiServer, Resource, now

NETWORK = "10.91.0"
GATEWAY = f"{NETWORK}.1"
"""Address of whatever is outside of the pods: of the driver in client mode, and the API server."""

USER = 1000650000
"""Id of the user that containers run as: some clusters give each namespace one, which has no name anywhere."""

_FIRST = 10
_LOOK_S = 0.1
_BRIDGE = "pods"
_SPARK = Path(pyspark.__file__).parent
_ENTRYPOINT = Path(__file__).parents[2] / "docs/cluster/kubernetes/entrypoint.sh"
_OVER = ("Succeeded", "Failed")
_OPTION = "SPARK_JAVA_OPT_"

# The first process of a pod waits for its cable; it takes in orphans, and tells the exit code of what it starts.
_BEGIN = (
    'echo there; read line; ip link set lo up; ip link set eth0 up; hostname "$0"; mount --bind hosts /etc/hosts; '
    f'cp /etc/passwd . && mount --bind passwd /etc/passwd; unshare --user --map-user={USER} --map-group=0 "$@"; exit $?'
)


@dataclass(slots=True)
class Pod:
    """A pod on this node."""

    name: str
    namespace: str
    address: str
    container: str
    folder: Path
    process: subprocess.Popen[bytes]
    network: str = ""
    started: str = ""

    @property
    def log(self) -> str:
        """What its container has said."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def kill(self, program: str = "") -> None:
        """Kills its processes, or those of a name, as the kernel does where memory is short."""
        for pid in self.processes(program):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self, program: str = "") -> list[int]:
        """Returns its processes, or those of a name."""
        network = self.network
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                name = (entry / "comm").read_text().strip()
                if os.readlink(entry / "ns/net") == network and program in ("", name):
                    found.append(int(entry.name))
        return found


class Node:
    """Runs all pods of an API server; use it as a context manager.

    Attributes:
        pods: Those that run, by name.
        past: Those that have ended.
    """

    def __init__(self, api: ApiServer, folder: Path) -> None:
        """Starts nothing yet.

        Args:
            folder: For what pods write.
        """
        self._api, self._folder = api, folder
        self._started = 0
        self._closed = threading.Event()
        self._why: dict[str, str] = {}
        self.pods: dict[str, Pod] = {}
        self.past: dict[str, Pod] = {}
        self._thread = threading.Thread(target=self._look, name="node", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._closed.set()
        self._thread.join()
        for name in list(self.pods):
            self._end(name)

    def executors(self) -> list[Pod]:
        """Returns the executors that run, oldest first."""
        return [pod for pod in list(self.pods.values()) if "-exec-" in pod.name]

    def driver(self) -> Pod:
        """Returns the only driver that runs."""
        (found,) = (pod for pod in list(self.pods.values()) if "-exec-" not in pod.name)
        return found

    def evict(self, pod: Pod, message: str) -> None:
        """Ends a pod as a kubelet does whose node lacks memory or disk."""
        self._why[pod.name] = message
        pod.kill()

    def delete(self, pod: Pod) -> None:
        """Deletes a pod, as draining its node does."""
        self._api.call("DELETE", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")

    # ---- what a kubelet does ----

    def _look(self) -> None:
        while not self._closed.wait(_LOOK_S):
            with suppress(OSError):  # what is refused has been deleted meanwhile
                there = {pod["metadata"]["name"]: pod for pod in self._api.all("pods")}
                for name, pod in there.items():
                    if "deletionTimestamp" in pod["metadata"]:
                        if name in self.pods:
                            mine = self.pods[name]
                            self._end(name)
                            self._tell(mine, "Failed", {"terminated": _ended(mine, 128 + signal.SIGTERM)})
                        self._forget(pod)
                    elif name not in self.pods and name not in self.past and _phase(pod) not in _OVER:
                        self._start(pod)
                for mine in [pod for pod in self.pods.values() if pod.process.poll() is not None]:
                    self._end(mine.name)
                    self._tell_end(mine)

    def _forget(self, pod: Resource) -> None:
        """Lets go a pod that was deleted, once its processes have ended."""
        pod["metadata"]["finalizers"] = []
        name = pod["metadata"]["name"]
        self._api.call("PUT", f"/api/v1/namespaces/{_space(pod)}/pods/{name}", pod)

    def _start(self, resource: Resource) -> None:
        self._started += 1
        number, name = self._started, str(resource["metadata"]["name"])
        address = f"{NETWORK}.{_FIRST + number}"
        folder = self._folder / name
        (folder / "local").mkdir(parents=True)
        container = resource["spec"]["containers"][0]
        mounts = self._mounts(resource, container, folder)
        known = {"status.podIP": address, "metadata.name": name}
        arguments = [_replaced(text, mounts) for text in container.get("args", ())]
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} {name}\n{self._services()}", encoding="utf-8")
        host = str(resource["spec"].get("hostname") or name)[:63]
        command = ["sh", "-c", _BEGIN, host, "bash", str(_ENTRYPOINT), *arguments]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["unshare", "--net", "--uts", "--mount", *command],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, cwd=folder,
                env=self._environment(resource, known, mounts, folder), start_new_session=True,
            )  # fmt: skip
        space = _space(resource)
        pod = Pod(name, space, address, container["name"], folder, process, started=now())
        self._plug(pod, number)
        self.pods[name] = pod
        self._tell(pod, "Running", {"running": {"startedAt": pod.started}})

    def _plug(self, pod: Pod, number: int) -> None:
        """Gives a pod its cable, once it has a network of its own, and lets it begin."""
        while "there" not in pod.log:
            assert pod.process.poll() is None, pod.log
            time.sleep(0.01)
        pod.network = os.readlink(f"/proc/{pod.process.pid}/ns/net")
        configure(
            f"link add pod{number} type veth peer name eth0 netns {pod.process.pid}",
            f"link set pod{number} master {_BRIDGE} up",
        )
        inside = ["nsenter", "--target", str(pod.process.pid), "--net"]
        configure(f"addr add {pod.address}/24 dev eth0", within=inside)
        assert pod.process.stdin is not None
        pod.process.stdin.write(b"go\n")
        pod.process.stdin.close()

    def _mounts(self, resource: Resource, container: Resource, folder: Path) -> dict[str, str]:
        """Returns the folders of a container's volumes, by the paths that it has for them."""
        found = {}
        volumes = {volume["name"]: volume for volume in resource["spec"].get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            place = folder / "volumes" / mount["name"]
            if "configMap" in volume:
                place.mkdir(parents=True, exist_ok=True)
                data = self._config_map(_space(resource), volume["configMap"]["name"])
                for key, text in data.items():
                    (place / key).write_text(text, encoding="utf-8")
                found[mount["mountPath"]] = str(place)
            elif "hostPath" in volume:
                found[mount["mountPath"]] = volume["hostPath"]["path"]
            else:
                place.mkdir(parents=True, exist_ok=True)
                found[mount["mountPath"]] = str(place)
        return found

    def _config_map(self, namespace: str, name: str) -> Mapping[str, str]:
        """Returns a config map's files; Spark makes the driver's pod before it."""
        while not self._closed.is_set():
            with suppress(OSError):
                data: Mapping[str, str] = self._api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")[
                    "data"
                ]
                return data
            time.sleep(_LOOK_S)
        return {}

    def _environment(
        self, resource: Resource, known: Mapping[str, str], mounts: Mapping[str, str], folder: Path
    ) -> dict[str, str]:
        """Returns the variables of a pod's container; `known` are the pod's own fields."""
        found = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "SPARK_HOME": str(_SPARK)}
        if "JAVA_HOME" in os.environ:
            found["JAVA_HOME"] = os.environ["JAVA_HOME"]
        for variable in resource["spec"]["containers"][0].get("env", ()):
            value, source = variable.get("value", ""), variable.get("valueFrom") or {}
            if "fieldRef" in source:
                value = known.get(source["fieldRef"]["fieldPath"], "")
            elif "secretKeyRef" in source:
                value = self._secret(_space(resource), **source["secretKeyRef"])
            found[variable["name"]] = _replaced(value, mounts)
        # Temporary files are the pod's own, as all of its /tmp would be.
        local, options = str(folder / "local"), len([name for name in found if _OPTION in name])
        option = f"-Djava.io.tmpdir={local}"
        own = {f"{_OPTION}{options}": option, "SPARK_SUBMIT_OPTS": option, "TMPDIR": local, "SPARK_LOCAL_DIRS": local}
        return {**found, **own}

    def _secret(self, namespace: str, name: str, key: str, **options: object) -> str:
        """Returns a value of a Secret's."""
        data = self._api.call("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")["data"]
        return base64.b64decode(data[key]).decode()

    def _services(self) -> str:
        """Returns the addresses of the services without one of their own, as the cluster's DNS has them."""
        lines = []
        for service in self._api.all("services"):
            wanted = (service["spec"].get("selector") or {}).items()
            for resource in self._api.all("pods"):
                pod = self.pods.get(resource["metadata"]["name"])
                if pod is not None and wanted and wanted <= resource["metadata"].get("labels", {}).items():
                    lines.append(f"{pod.address} {service['metadata']['name']}.{_space(service)}.svc\n")
        return "".join(lines)

    def _tell_end(self, pod: Pod) -> None:
        code = pod.process.returncode
        code = code if code >= 0 else 128 - code
        ended = _ended(pod, code)
        why = self._why.get(pod.name)
        if why is not None:
            ended["reason"] = "Error"
        self._tell(pod, "Failed" if code else "Succeeded", {"terminated": ended}, why)

    def _tell(self, pod: Pod, phase: str, state: Resource, evicted: str | None = None) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        resource = self._api.call("GET", path)
        resource["status"] = {
            "conditions": [{"type": "Ready", "status": str(phase == "Running")}],
            "phase": phase, "podIP": pod.address, "hostIP": GATEWAY, "startTime": pod.started,
            "containerStatuses": [
                {"name": pod.container, "ready": phase == "Running", "restartCount": 0, "image": "here", "imageID": "",
                 "state": state}
            ],
            **({} if evicted is None else {"reason": "Evicted", "message": evicted}),
        }  # fmt: skip
        self._api.call("PUT", f"{path}/status", resource)

    def _end(self, name: str) -> None:
        pod = self.pods.pop(name)
        while pod.processes():  # who is killed may just have started another one
            pod.kill()
            pod.process.wait()
        pod.process.wait()  # also where it had ended by itself before anybody looked
        self.past[name] = pod


def _ended(pod: Pod, code: int) -> Resource:
    reason = "OOMKilled" if code == 128 + signal.SIGKILL else "Error" if code else "Completed"
    return {"exitCode": code, "reason": reason, "startedAt": pod.started, "finishedAt": now()}


def build_network() -> None:
    """Makes the bridge that pods are plugged into.

    It has an address of its own: else it takes that of a cable, and is not found any more once this pod has ended.
    """
    configure(
        f"link add {_BRIDGE} address 02:00:00:00:00:01 type bridge",
        f"addr add {GATEWAY}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    )


def configure(*commands: str, within: list[str] = []) -> None:  # noqa: B006 - read alone
    """Runs commands of ip(8)."""
    subprocess.run([*within, "ip", "-batch", "-"], input="\n".join([*commands, ""]), text=True, check=True)


def _replaced(text: str, mounts: Mapping[str, str]) -> str:
    """Returns a text with the paths of the container's volumes as they are on this machine."""
    for inside, place in mounts.items():
        text = text.replace(inside, place)
    return text


def _space(resource: Resource) -> str:
    """Returns a resource's namespace."""
    return str(resource["metadata"].get("namespace", "default"))


def _phase(pod: Resource) -> str:
    status: Mapping[str, Any] = pod.get("status") or {}
    return str(status.get("phase", ""))
