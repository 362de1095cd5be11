"""The daemons of a cluster, and the Java command of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from minihadoop import hadoop_conf as conf
from minihadoop.config import ClusterConfig, Host
from minihadoop.errors import RefusedError
from minihadoop.jars import Distribution
from minihadoop.kerberos import KDC_PORT

# Hadoop's own start scripts open these to it.
_OPENED = (
    *("java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.text", "java.util"),
    *("java.util.concurrent", "java.util.zip", "sun.security.util", "sun.security.x509"),
)
# Ten of them share a laptop: they start faster and stay smaller with the plain collector and the first compiler, and
# without verifying the classes of released jars.
_JVM_OPTIONS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+IgnoreUnrecognizedVMOptions"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
    *("-Djava.net.preferIPv4Stack=true", "-XX:-UsePerfData"),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)
TOOL_HEAP_MIB = 256

TOOLS = {
    "fs": "org.apache.hadoop.fs.FsShell",
    "haadmin": "org.apache.hadoop.hdfs.tools.DFSHAAdmin",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
    "key": "org.apache.hadoop.crypto.key.KeyShell",
    "crypto": "org.apache.hadoop.hdfs.tools.CryptoAdmin",
    "application": "org.apache.hadoop.yarn.client.cli.ApplicationCLI",
    "node": "org.apache.hadoop.yarn.client.cli.NodeCLI",
    "logs": "org.apache.hadoop.yarn.client.cli.LogsCLI",
    "rmadmin": "org.apache.hadoop.yarn.client.cli.RMAdminCLI",
}


@dataclass(frozen=True)
class Kind:
    """The kinds of daemons; the KDC is a program without `main_class` and web page."""

    name: str
    main_class: str
    heap_mib: int
    port: int
    web_port: int


NAMENODE = Kind(
    "namenode",
    "org.apache.hadoop.hdfs.server.namenode.NameNode",
    heap_mib=256,
    port=conf.NAMENODE_PORT,
    web_port=conf.NAMENODE_WEB_PORT,
)
RESOURCEMANAGER = Kind(
    "resourcemanager",
    "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    heap_mib=384,
    port=conf.RESOURCEMANAGER_PORT,
    web_port=conf.RESOURCEMANAGER_WEB_PORT,
)
DATANODE = Kind(
    "datanode",
    "org.apache.hadoop.hdfs.server.datanode.DataNode",
    heap_mib=192,
    port=conf.DATANODE_PORT,
    web_port=conf.DATANODE_WEB_PORT,
)
NODEMANAGER = Kind(
    "nodemanager",
    "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
    heap_mib=256,
    port=conf.NODEMANAGER_PORT,
    web_port=conf.NODEMANAGER_WEB_PORT,
)


KDC = Kind("kdc", "", heap_mib=0, port=KDC_PORT, web_port=0)


@dataclass(frozen=True)
class Daemon:
    """One daemon of the cluster: a JVM, or the KDC."""

    kind: Kind
    host: Host
    scheme: str = "http"

    @property
    def name(self) -> str:
        """The name of its record and its log."""
        return f"{self.kind.name}@{self.host.name}"

    @property
    def web_url(self) -> str:
        return f"{self.scheme}://{self.host.fqdn}:{self.kind.web_port}"


def daemons_of(config: ClusterConfig) -> tuple[Daemon, ...]:
    """Returns the daemons of a cluster, in the order in which they start best."""
    managers = [Daemon(RESOURCEMANAGER, config.master, config.yarn_scheme)] if config.yarn else []
    stores = [Daemon(DATANODE, host) for host in config.workers]
    takers = [Daemon(NODEMANAGER, host, config.yarn_scheme) for host in config.workers if config.yarn]
    keys = [Daemon(KDC, config.master)] if config.secure else []
    names = [Daemon(NAMENODE, host) for host in config.name_hosts]
    workers = sorted([*stores, *takers], key=lambda daemon: config.workers.index(daemon.host))
    return (*keys, *managers, *names, *workers)


def find_daemon(config: ClusterConfig, kind: str, host: str | None) -> Daemon:
    """Returns the daemon of a kind, on the host of that name where several hosts have one.

    Raises:
        RefusedError: There is none, or not just one.
    """
    found = [
        daemon
        for daemon in daemons_of(config)
        if daemon.kind.name == kind and host in (None, daemon.host.name, daemon.host.fqdn)
    ]
    if len(found) != 1:
        names = ", ".join(daemon.name for daemon in daemons_of(config))
        raise RefusedError(f"{kind} on {host or 'which host?'}: cluster {config.name} has {names}")
    return found[0]


def java_command(
    java_home: Path,
    jars: Distribution,
    conf_dir: Path,
    main_class: str,
    arguments: Sequence[str] = (),
    *,
    heap_mib: int = TOOL_HEAP_MIB,
    folders: Mapping[str, Path] = MappingProxyType({}),
) -> list[str]:
    """Returns the command of a Java program of Hadoop's; `folders` are system properties."""
    return [
        str(java_home / "bin/java"),
        f"-Xmx{heap_mib}m",
        *_JVM_OPTIONS,
        *(f"-D{name}={folder}" for name, folder in folders.items()),
        "-cp",
        f"{conf_dir}:{jars.home}:{jars.lib}/*",
        main_class,
        *arguments,
    ]
