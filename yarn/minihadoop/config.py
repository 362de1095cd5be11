"""The description of a cluster: a frozen value, from which names, addresses and ports follow."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from minihadoop.errors import RefusedError

EDGE = "edge"
MASTER, MASTER2 = "master", "master2"
SUBNET = "10.77.0"
# The name service of a pair of NameNodes.
SERVICE = "lake"
# The cluster's network is its own: only its size limits the addresses.
MAX_HOSTS = 200
MIB = 1 << 20
HADOOPS = ("3.3.6", "3.4.2", "3.5.0")
"""Versions of Hadoop that the daemons can be, as platforms have them."""

# Interfaces and folders carry it, and it is a label of the hosts' domain names.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}(?<!-)")


def check_name(name: str) -> None:
    """Raises RefusedError if a cluster cannot have that name."""
    if not _NAME.fullmatch(name):
        raise RefusedError(f"name {name!r}: lower-case letters, digits and -, at most 31, a letter first")


@dataclass(frozen=True)
class Host:
    """One host: its short name in this package (`host2`), its name in the cluster's network, and its address."""

    name: str
    fqdn: str
    address: str


@dataclass(frozen=True)
class ClusterConfig:
    """A mini cluster.

    NameNode and ResourceManager are on the host `master`, a DataNode and a NodeManager on each of `host1`, `host2`, ...
    Commands run on `edge`, from where the others are reached.

    Attributes:
        name: Tells clusters of one machine apart; the hosts are called `host1.<name>.test`.
        hosts: Number of hosts with DataNode and NodeManager.
        block_mib: HDFS block size.
        replication: Replicas of a block, unless a writer asks for another number.
        host_memory_mib: Memory that a NodeManager has to give to containers; also the largest container.
        host_vcores: The same, in virtual cores.
        settings: Hadoop properties over our own, as (key, value).
        user_namespace: Whether the cluster lives in a user namespace even where root could do without.
        yarn: Whether there is YARN beside HDFS: half of the daemons.
        secure: Whether all ask for Kerberos tickets, with a key distribution centre on `master`, users `alice` and
            `bob`, and privacy on the wire. Of log aggregation and clients' retries, it has none.
        https: Whether YARN speaks HTTPS in place of HTTP, and HDFS both, of which its clients are told HTTPS alone.
        namenodes: With 2, another NameNode on `master2` stands by, both are the name service `SERVICE`, and
            ResourceManager and NodeManagers recover their state when they are started again.
        hadoop: Version of Hadoop, one of `HADOOPS`; "": the newest of them, which pom.xml names.

    Raises:
        RefusedError: A value makes no cluster.
    """

    name: str = "default"
    hosts: int = 4
    block_mib: int = 4
    replication: int = 2
    host_memory_mib: int = 4096
    host_vcores: int = 4
    settings: tuple[tuple[str, str], ...] = ()
    user_namespace: bool = False
    yarn: bool = True
    secure: bool = False
    https: bool = False
    namenodes: int = 1
    hadoop: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)
        if not 1 <= self.hosts <= MAX_HOSTS:
            raise RefusedError(f"hosts {self.hosts}: from 1 to {MAX_HOSTS}")
        if not 1 <= self.replication <= self.hosts:
            raise RefusedError(f"replication {self.replication}: from 1 to the number of hosts, {self.hosts}")
        if self.hadoop and self.hadoop not in HADOOPS:
            raise RefusedError(f"hadoop {self.hadoop}: {', '.join(HADOOPS)}")
        if self.namenodes not in (1, 2):
            raise RefusedError(f"namenodes {self.namenodes}: 1, or 2 of which one stands by")
        for key in ("block_mib", "host_memory_mib", "host_vcores"):
            if getattr(self, key) < 1:
                raise RefusedError(f"{key} {getattr(self, key)}: must be positive")

    @property
    def edge(self) -> Host:
        return self._host(EDGE, 1)

    @property
    def master(self) -> Host:
        return self._host(MASTER, 2)

    @property
    def name_hosts(self) -> tuple[Host, ...]:
        """The hosts with a NameNode."""
        return (self.master, self._host(MASTER2, 3))[: self.namenodes]

    @property
    def workers(self) -> tuple[Host, ...]:
        """The hosts that store and compute."""
        return tuple(self._host(f"host{i}", 10 + i) for i in range(1, self.hosts + 1))

    @property
    def all_hosts(self) -> tuple[Host, ...]:
        return (self.edge, *self.name_hosts, *self.workers)

    @property
    def yarn_scheme(self) -> str:
        """How YARN's daemons are asked."""
        return "https" if self.https else "http"

    def host(self, name: str) -> Host:
        """Returns the host of a short or full name.

        Raises:
            RefusedError: There is none of that name.
        """
        for host in self.all_hosts:
            if name in (host.name, host.fqdn):
                return host
        raise RefusedError(f"cluster {self.name} has no host {name!r}: {', '.join(h.name for h in self.all_hosts)}")

    def hosts_file(self) -> str:
        """Returns the /etc/hosts of every host of the cluster."""
        lines = [f"{host.address} {host.fqdn} {host.name}" for host in self.all_hosts]
        return "\n".join(["127.0.0.1 localhost", *lines, ""])

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> ClusterConfig:
        """Returns the configuration that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        settings = tuple((key, value) for key, value in values.pop("settings"))
        return cls(**values, settings=settings)

    def _host(self, name: str, number: int) -> Host:
        return Host(name, f"{name}.{self.name}.test", f"{SUBNET}.{number}")
