"""The Hadoop configuration of one host, written as files.

Fast for tests: a dead DataNode is known after some 12 s and a frozen one is avoided after 3 s, instead of ten minutes
and 30 s; the ResourceManager misses a NodeManager after 10 s.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from minihadoop import secure_conf, tls
from minihadoop.config import MIB, SERVICE, ClusterConfig, Host
from minihadoop.layout import ClusterFolder
from minihadoop.secure_conf import Value

NAMENODE_PORT, NAMENODE_WEB_PORT = 8020, 9870
DATANODE_PORT, DATANODE_WEB_PORT = 9866, 9864
RESOURCEMANAGER_PORT, RESOURCEMANAGER_WEB_PORT = 8032, 8088
NODEMANAGER_PORT, NODEMANAGER_WEB_PORT = 8041, 8042
STALE_AFTER_S = 3
SUPERUSER = "root"

_LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""
# On the edge, tools print results: what they log is only in the way.
_QUIET_LOG4J = f"""\
{_LOG4J.replace("INFO,console", "WARN,console")}
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""


def write_conf(config: ClusterConfig, folder: ClusterFolder, host: Host) -> None:
    """Writes the HADOOP_CONF_DIR of a host."""
    conf, data = folder.conf(host.name), folder.data(host.name)
    conf.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    files = {
        "core-site.xml": _core(config, data),
        "hdfs-site.xml": _hdfs(config, host, data),
        "yarn-site.xml": _yarn(config, host, data),
        "capacity-scheduler.xml": _capacity_scheduler(),
    }
    if config.namenodes > 1:
        _of_a_pair(config, files, folder, data)
    if config.secure:
        files["core-site.xml"] |= secure_conf.core(folder, host)
        files["hdfs-site.xml"] |= secure_conf.hdfs(folder, host)
        files["yarn-site.xml"] |= secure_conf.yarn(folder, host)
    if config.https:
        files |= tls.core_files(folder)
        files["hdfs-site.xml"] |= tls.hdfs(config, host)
        files["yarn-site.xml"] |= {
            "yarn.http.policy": "HTTPS_ONLY",
            "yarn.resourcemanager.webapp.https.address": f"{config.master.fqdn}:{RESOURCEMANAGER_WEB_PORT}",
            "yarn.nodemanager.webapp.https.address": f"{host.fqdn}:{NODEMANAGER_WEB_PORT}",
        }
    for key, value in config.settings:
        files[_file_of(key)][key] = value
    for name, properties in files.items():
        (conf / name).write_text(_xml(properties), encoding="utf-8")
    (conf / "log4j.properties").write_text(_QUIET_LOG4J if host == config.edge else _LOG4J, encoding="ascii")


def _core(config: ClusterConfig, data: Path) -> dict[str, Value]:
    return {
        "fs.defaultFS": f"hdfs://{config.master.fqdn}:{NAMENODE_PORT}",
        "hadoop.tmp.dir": data / "tmp",
        "hadoop.http.staticuser.user": SUPERUSER,
    }


def _hdfs(config: ClusterConfig, host: Host, data: Path) -> dict[str, Value]:
    return {
        "dfs.replication": config.replication,
        "dfs.blocksize": config.block_mib * MIB,
        "dfs.namenode.fs-limits.min-block-size": MIB,
        "dfs.namenode.name.dir": data / "namenode",
        "dfs.namenode.rpc-address": f"{config.master.fqdn}:{NAMENODE_PORT}",
        "dfs.namenode.http-address": f"{config.master.fqdn}:{NAMENODE_WEB_PORT}",
        "dfs.permissions.superusergroup": SUPERUSER,
        "dfs.datanode.data.dir": data / "datanode",
        "dfs.datanode.hostname": host.fqdn,
        # Noticing: dead after 10 heartbeats and 2 rechecks.
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": 1000,
        "dfs.namenode.redundancy.interval.seconds": 1,
        "dfs.namenode.stale.datanode.interval": STALE_AFTER_S * 1000,
        "dfs.namenode.stale.datanode.minimum.interval": STALE_AFTER_S,
        "dfs.namenode.avoid.read.stale.datanode": True,
        "dfs.namenode.avoid.write.stale.datanode": True,
        "dfs.namenode.write.stale.datanode.ratio": "0.9f",
        "dfs.namenode.safemode.extension": 0,
        # Of four idle hosts, one with an open connection has more than twice the mean, and would get no block.
        "dfs.namenode.redundancy.considerLoad": False,
        # A client outlives a restart of the NameNode.
        "dfs.client.retry.policy.enabled": True,
    }


def _of_a_pair(config: ClusterConfig, files: dict[str, dict[str, Value]], folder: ClusterFolder, data: Path) -> None:
    """Puts a name service of two NameNodes in the place of one, and has YARN's daemons recover what they knew.

    The edits of the active NameNode are in a folder that both see. Nobody watches over them: who is active is told by
    `haadmin`.
    """
    names, of_one = files["hdfs-site.xml"], ("rpc-address", "http-address")
    for key in of_one:
        del names[f"dfs.namenode.{key}"]
    for host in config.name_hosts:
        names[f"dfs.namenode.rpc-address.{SERVICE}.{host.name}"] = f"{host.fqdn}:{NAMENODE_PORT}"
        names[f"dfs.namenode.http-address.{SERVICE}.{host.name}"] = f"{host.fqdn}:{NAMENODE_WEB_PORT}"
    provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    names |= {
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": ",".join(host.name for host in config.name_hosts),
        f"dfs.client.failover.proxy.provider.{SERVICE}": provider,
        "dfs.namenode.shared.edits.dir": f"file://{folder.shared_edits}",
        # Nothing is to be fenced: whoever makes the other one active has ended this one.
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        # With it, clients wait minutes for the NameNode that has died instead of asking the other one.
        "dfs.client.retry.policy.enabled": False,
        "dfs.ha.tail-edits.period": 1,
        "dfs.ha.log-roll.period": 5,
    }
    files["core-site.xml"]["fs.defaultFS"] = f"hdfs://{SERVICE}"
    yarn = "org.apache.hadoop.yarn.server"
    files["yarn-site.xml"] |= {
        "yarn.resourcemanager.recovery.enabled": True,
        "yarn.resourcemanager.store.class": f"{yarn}.resourcemanager.recovery.LeveldbRMStateStore",
        "yarn.resourcemanager.leveldb-state-store.path": data / "resourcemanager-state",
        # Containers are not given out before the NodeManagers had time to tell of theirs.
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": 2000,
        "yarn.nodemanager.recovery.enabled": True,
        "yarn.nodemanager.recovery.supervised": True,
        "yarn.nodemanager.recovery.dir": data / "nodemanager-state",
    }


def _yarn(config: ClusterConfig, host: Host, data: Path) -> dict[str, Value]:
    return {
        "yarn.resourcemanager.hostname": config.master.fqdn,
        "yarn.resourcemanager.scheduler.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
        ),
        # By default in the system's /tmp, where it would outlive the cluster.
        "yarn.node-attribute.fs-store.root-dir": f"file://{data}/node-attributes",
        # Each container waits for two of them: one to be given, and one to be told.
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 200,
        "yarn.scheduler.minimum-allocation-mb": 128,
        "yarn.scheduler.maximum-allocation-mb": config.host_memory_mib,
        "yarn.scheduler.maximum-allocation-vcores": config.host_vcores,
        "yarn.nodemanager.hostname": host.fqdn,
        "yarn.nodemanager.address": f"{host.fqdn}:{NODEMANAGER_PORT}",
        "yarn.nodemanager.local-dirs": data / "nodemanager",
        "yarn.nodemanager.log-dirs": data / "containers",
        "yarn.nodemanager.resource.memory-mb": config.host_memory_mib,
        "yarn.nodemanager.resource.cpu-vcores": config.host_vcores,
        # Virtual memory says nothing about TensorFlow and Java.
        "yarn.nodemanager.vmem-check-enabled": False,
        # True, the default, leaves containers that outgrow their memory to cgroups, which are not set up here.
        "yarn.nodemanager.resource.memory.enforced": False,
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99,
        "yarn.log-aggregation-enable": True,
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
        "yarn.nm.liveness-monitor.expiry-interval-ms": 10_000,
        # YARN's own: on a machine that all hosts share, a master may long be kept from registering.
        "yarn.am.liveness-monitor.expiry-interval-ms": 600_000,
        "yarn.resourcemanager.connect.retry-interval.ms": 1000,
        # A client of a ResourceManager that is down gives up soon; a NodeManager waits for it to come back.
        "yarn.resourcemanager.connect.max-wait.ms": 20_000 if host == config.edge else 900_000,
    }


def _capacity_scheduler() -> dict[str, Value]:
    queues = "yarn.scheduler.capacity.root"
    return {
        f"{queues}.queues": "default",
        f"{queues}.default.capacity": 100,
        f"{queues}.default.maximum-capacity": 100,
        # The default of 0.1 keeps a second application waiting for ever on a cluster this small.
        "yarn.scheduler.capacity.maximum-am-resource-percent": 0.6,
        "yarn.scheduler.capacity.node-locality-delay": 3,
    }


def _file_of(key: str) -> str:
    """Returns the file in which Hadoop looks for a property."""
    files = {
        "yarn.scheduler.capacity.": "capacity-scheduler.xml",
        "yarn.": "yarn-site.xml",
        "dfs.": "hdfs-site.xml",
    }
    return next((file for prefix, file in files.items() if key.startswith(prefix)), "core-site.xml")


def _xml(properties: dict[str, Value]) -> str:
    lines = [
        f"  <property><name>{escape(key)}</name><value>{escape(_text(value))}</value></property>"
        for key, value in properties.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
