"""HDFS as the tests look at it: plain WebHDFS and the NameNode's own pages, independent of every client library."""

from __future__ import annotations

import enum
import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from minihadoop.config import ClusterConfig
from minihadoop.errors import CommandError
from minihadoop.hadoop_conf import DATANODE_PORT, DATANODE_WEB_PORT, NAMENODE_WEB_PORT, STALE_AFTER_S, SUPERUSER
from minihadoop.kerberos import ticket
from minihadoop.layout import ClusterFolder
from minihadoop.web import TIMEOUT_S, query, request

_TRANSFER_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 2.0
_NO_QUOTA = -1


class DataNodeState(enum.Enum):
    """A DataNode as the NameNode sees it; `UNKNOWN` to it until it registers."""

    LIVE = "live"
    STALE = "stale"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class BlockLocation:
    """Bytes [offset, offset + nbytes) of a file, and the short names of the hosts with a replica."""

    offset: int
    nbytes: int
    hosts: tuple[str, ...]


class Hdfs:
    """The file system of a cluster; to be used inside its network.

    Every method raises `CommandError` for what HDFS refuses, and OSError for a daemon that is not reached.
    """

    def __init__(self, config: ClusterConfig, folder: ClusterFolder) -> None:
        self._config = config
        self._folder = folder

    @property
    def url(self) -> str:
        """The web address of the NameNode, of a pair that of the active one, or of the first if none is."""
        return self._url_of(self.active() or self._config.master.name)

    def active(self) -> str | None:
        """Returns the host of the active NameNode; None if both of a pair stand by, or are away."""
        if self._config.namenodes == 1:
            return self._config.master.name
        return next((host.name for host in self._config.name_hosts if self.role(host.name) == "active"), None)

    def role(self, host: str) -> str:
        """Returns what the NameNode of a host is: "active" or "standby"; "" if it does not answer."""
        try:
            return str(self._bean("NameNodeStatus", self._url_of(host)).get("State", ""))
        except (OSError, CommandError):
            return ""

    def put(
        self,
        path: str,
        data: bytes,
        *,
        replication: int | None = None,
        block_nbytes: int | None = None,
        host: str | None = None,
        user: str = SUPERUSER,
    ) -> None:
        """Writes a file, replacing an existing one.

        Args:
            host: Short name of the host with the first replica; the NameNode draws one by default.
        """
        others = [worker.address for worker in self._config.workers if host not in (None, worker.name)]
        wanted = {
            "replication": replication,
            "blocksize": block_nbytes,
            "excludedatanodes": ",".join(others) if others else None,
        }
        options = {key: value for key, value in wanted.items() if value is not None}
        target = self._operation("PUT", path, "CREATE", user, noredirect="true", overwrite="true", **options)
        self._ask("PUT", target["Location"], user, data, _TRANSFER_TIMEOUT_S)

    def get(self, path: str, user: str = SUPERUSER) -> bytes:
        """Returns the contents of a file."""
        return self._ask("GET", self._url(path, "OPEN", user), user, timeout_s=_TRANSFER_TIMEOUT_S)

    def make_folder(self, path: str, permission: str = "755", user: str = SUPERUSER) -> None:
        """Makes a folder, and those above it."""
        self._operation("PUT", path, "MKDIRS", user, permission=permission)

    def set_owner(self, path: str, owner: str) -> None:
        """Gives a file or folder to another user."""
        self._ask("PUT", self._url(path, "SETOWNER", SUPERUSER, owner=owner), SUPERUSER)

    def delete(self, path: str, user: str = SUPERUSER) -> bool:
        """Deletes a file, or a folder with its content; returns whether there was one."""
        return bool(self._operation("DELETE", path, "DELETE", user, recursive="true")["boolean"])

    def set_quota(self, path: str, *, space_nbytes: int | None = None, names: int | None = None) -> None:
        """Limits the bytes, with all replicas, and the names below a folder; None removes a limit."""
        quotas = {"storagespacequota": space_nbytes, "namespacequota": names}
        wanted = {key: _NO_QUOTA if value is None else value for key, value in quotas.items()}
        self._ask("PUT", self._url(path, "SETQUOTA", SUPERUSER, **wanted), SUPERUSER)

    def names(self, path: str, user: str = SUPERUSER) -> list[str]:
        """Returns the names in a folder, sorted."""
        listed = json.loads(self._ask("GET", self._url(path, "LISTSTATUS", user), user))["FileStatuses"]["FileStatus"]
        return sorted(entry["pathSuffix"] for entry in listed)

    def block_locations(self, path: str) -> list[BlockLocation]:
        """Returns where the blocks of a file are, in the order of the file."""
        found = json.loads(self._ask("GET", self._url(path, "GETFILEBLOCKLOCATIONS", SUPERUSER), SUPERUSER))
        blocks = found["BlockLocations"]["BlockLocation"]
        return [
            BlockLocation(
                block["offset"], block["length"], tuple(self._config.host(name).name for name in block["hosts"])
            )
            for block in blocks
        ]

    def fsck(self, path: str = "/") -> str:
        """Returns the NameNode's check of a path, with files, blocks and their hosts."""
        wanted = query(ugi=SUPERUSER, path=path, files=1, blocks=1, locations=1)
        return self._ask("GET", f"{self.url}/fsck?{wanted}", SUPERUSER, timeout_s=_TRANSFER_TIMEOUT_S).decode()

    def is_writable(self) -> bool:
        """Whether the NameNode has left safe mode."""
        return not self._bean("NameNodeInfo")["Safemode"]

    def datanode_states(self) -> dict[str, DataNodeState]:
        """Returns host -> how the NameNode sees its DataNode."""
        info = self._bean("NameNodeInfo")
        states = {host.name: DataNodeState.UNKNOWN for host in self._config.workers}
        for name in json.loads(info["DeadNodes"]):
            states[self._host_of(name)] = DataNodeState.DEAD
        for name, seen in json.loads(info["LiveNodes"]).items():
            stale = seen["lastContact"] >= STALE_AFTER_S
            states[self._host_of(name)] = DataNodeState.STALE if stale else DataNodeState.LIVE
        return states

    def datanode_answers(self, host: str) -> bool:
        """Whether the DataNode of a host takes connections, for blocks and for WebHDFS."""
        address = self._config.host(host).address
        try:
            for port in (DATANODE_PORT, DATANODE_WEB_PORT):
                socket.create_connection((address, port), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError:
            return False
        return True

    def _url_of(self, host: str) -> str:
        return f"http://{self._config.host(host).fqdn}:{NAMENODE_WEB_PORT}"

    def _bean(self, name: str, url: str = "") -> dict[str, Any]:
        page = self._ask("GET", f"{url or self.url}/jmx?qry=Hadoop:service=NameNode,name={name}", SUPERUSER)
        beans: list[dict[str, Any]] = json.loads(page)["beans"]
        return beans[0] if beans else {}

    def _host_of(self, datanode: str) -> str:
        return self._config.host(datanode.partition(":")[0]).name

    def _operation(self, method: str, path: str, operation: str, user: str, **options: str | int) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._ask(method, self._url(path, operation, user, **options), user))
        return answer

    def _ask(self, method: str, url: str, user: str, body: bytes | None = None, timeout_s: float = TIMEOUT_S) -> bytes:
        asking = ticket(self._folder, user) if self._config.secure else None
        return request(method, url, body, timeout_s, ticket=asking)

    def _url(self, path: str, operation: str, user: str, **options: str | int) -> str:
        return f"{self.url}/webhdfs/v1{quote(path)}?" + query(op=operation, **{"user.name": user}, **options)
