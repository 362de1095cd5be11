"""YARN as the tests look at it: the ResourceManager's REST interface, and the logs on the hosts' disks."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from minihadoop.config import ClusterConfig
from minihadoop.hadoop_conf import RESOURCEMANAGER_WEB_PORT, SUPERUSER
from minihadoop.kerberos import ticket
from minihadoop.layout import ClusterFolder
from minihadoop.waiting import wait_for
from minihadoop.web import get_json

_ENDED = ("FINISHED", "FAILED", "KILLED")
_END_S = 30.0


class NodeState(enum.Enum):
    """A NodeManager as the ResourceManager sees it; `UNKNOWN` to it until it registers."""

    RUNNING = "running"
    LOST = "lost"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Application:
    """One application: where it is, how it ended, and why."""

    id: str
    name: str
    user: str
    queue: str
    state: str  # NEW, ACCEPTED, RUNNING, FINISHED, FAILED, KILLED, ...: where YARN is with it
    final_status: str  # UNDEFINED, SUCCEEDED, FAILED or KILLED: what it said of itself
    progress: float
    tags: tuple[str, ...]
    diagnostics: str
    containers: int
    memory_mib: int

    @property
    def has_ended(self) -> bool:
        """Whether it has ended for YARN."""
        return self.state in _ENDED


@dataclass(frozen=True)
class ContainerLog:
    """One file that a container writes: `stdout`, `stderr`, ..."""

    host: str
    container: str
    file: str
    text: str


class Yarn:
    """The resource side of a cluster; to be used inside its network. Raises as `Hdfs` does."""

    def __init__(self, config: ClusterConfig, folder: ClusterFolder) -> None:
        self._config = config
        self._folder = folder
        self.url = f"{config.yarn_scheme}://{config.master.fqdn}:{RESOURCEMANAGER_WEB_PORT}"

    def applications(self) -> list[Application]:
        """Returns all applications since the ResourceManager started, oldest first."""
        listed = (self._get(f"{self.url}/ws/v1/cluster/apps")["apps"] or {}).get("app", [])
        return [_application(values) for values in sorted(listed, key=lambda values: values["startedTime"])]

    def application(self, application_id: str) -> Application:
        """Returns one application."""
        return _application(self._get(f"{self.url}/ws/v1/cluster/apps/{application_id}")["app"])

    def ended_application(self, application_id: str) -> Application:
        """Returns an application that is ending, once YARN has ended it: a moment after its submitter leaves.

        Raises:
            NotReadyError: It has not ended in time.
        """

        def missing() -> str:
            found = self.application(application_id)
            return "" if found.has_ended else f"its state is {found.state}"

        wait_for(f"{application_id} has ended", missing, _END_S)
        return self.application(application_id)

    def metrics(self) -> dict[str, int | float]:
        """Returns the ResourceManager's totals: `activeNodes`, `availableMB`, `containersAllocated`, ..."""
        return dict(self._get(f"{self.url}/ws/v1/cluster/metrics")["clusterMetrics"])

    def node_states(self) -> dict[str, NodeState]:
        """Returns host -> how the ResourceManager sees its NodeManager."""
        states = {host.name: NodeState.UNKNOWN for host in self._config.workers}
        for node in (self._get(f"{self.url}/ws/v1/cluster/nodes")["nodes"] or {}).get("node", []):
            known = node["state"] in ("RUNNING", "LOST")
            states[self._config.host(node["nodeHostName"]).name] = (
                NodeState[node["state"]] if known else NodeState.OTHER
            )
        return states

    def log_aggregation(self, application_id: str) -> str:
        """Returns the state of storing an application's logs in HDFS: RUNNING, SUCCEEDED, FAILED, ..."""
        return str(self._get(f"{self.url}/ws/v1/cluster/apps/{application_id}")["app"]["logAggregationStatus"])

    def container_logs(self, application_id: str) -> list[ContainerLog]:
        """Returns the logs of an application's containers so far.

        They are on the hosts' disks until the application ends; from then on `MiniHadoop.aggregated_logs` has them.
        """
        return [
            ContainerLog(host.name, path.parent.name, path.name, path.read_text(encoding="utf-8", errors="replace"))
            for host in self._config.workers
            for path in sorted((self._folder.data(host.name) / "containers" / application_id).glob("container_*/*"))
            if path.is_file()
        ]

    def _get(self, url: str) -> Any:
        return get_json(url, ticket=ticket(self._folder, SUPERUSER) if self._config.secure else None)


def _application(values: dict[str, Any]) -> Application:
    return Application(
        id=values["id"],
        name=values["name"],
        user=values["user"],
        queue=values["queue"],
        state=values["state"],
        final_status=values["finalStatus"],
        progress=values["progress"] / 100,
        tags=tuple(filter(None, values.get("applicationTags", "").split(","))),
        diagnostics=values.get("diagnostics", ""),
        containers=max(values.get("runningContainers", 0), 0),
        memory_mib=max(values.get("allocatedMB", 0), 0),
    )
