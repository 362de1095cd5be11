"""Brings a cluster up, and takes it down to the last trace."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from minihadoop import network
from minihadoop.cluster import MiniHadoop
from minihadoop.config import EDGE, MASTER, ClusterConfig, Host
from minihadoop.daemons import KDC, NAMENODE, java_command
from minihadoop.environment import environment, java_home
from minihadoop.errors import CommandError, RefusedError
from minihadoop.hadoop_conf import SUPERUSER, write_conf
from minihadoop.jars import Distribution, hadoop_version, resolve
from minihadoop.kerberos import SHORT_NAMES, USERS, create_realm
from minihadoop.krb5 import found, resolve_krb5
from minihadoop.layout import ClusterFolder
from minihadoop.namespaces import command_in, edge_options
from minihadoop.prerequisites import check_curl, check_java, check_tools
from minihadoop.processes import State, end_all, holder, holder_name, recorded, spawn
from minihadoop.tls import create_certificates
from minihadoop.waiting import wait_for

START_DEADLINE_S = 120.0
_KDC_S = 20.0
# What a holder does: nothing, for as long as the cluster lives.
_HOLD = ("sleep", "infinity")
# Java, curl and all that asks for tickets look for /etc/krb5.conf, of which the machine may have none, or another one.
_OWN_ETC = 'cp -a /etc "$0/" 2>/dev/null || :; cp "$0/kerberos/krb5.conf" "$0/etc/"; mount --bind "$0/etc" /etc'
_HIDE_NAME_CACHE = "if [ -d /run/nscd ]; then mount -t tmpfs none /run/nscd; fi"

Report = Callable[[str], None]


def up(config: ClusterConfig, report: Report) -> MiniHadoop:
    """Brings a cluster up, or the missing parts of a running one; interrupted, a start leaves nothing.

    Raises:
        RefusedError: The machine lacks something, or the running cluster has another configuration.
        NotReadyError: It did not come up in time.
        CommandError: A step of the start failed.
    """
    check_tools()
    check_java()
    options = edge_options(config.user_namespace)
    jars = resolve(report, config.hadoop)
    if config.secure:
        check_curl()
        resolve_krb5(report)
    folder = ClusterFolder.of(config.name)
    with folder.locked(partial(report, f"waiting for another command on cluster {config.name}")):
        if _is_up(folder):
            return _complete(config, folder, report)
        _end(folder)
        folder.clear()
        try:
            return _start(config, folder, jars, options, report)
        except BaseException:
            _end(folder)
            folder.remove()
            raise


def down(name: str, report: Report) -> bool:
    """Ends every process of a cluster, whatever state it is in, and removes its folder.

    Returns:
        Whether there was one.
    """
    folder = ClusterFolder.of(name)
    if not folder.path.exists():
        return False
    with folder.locked(partial(report, f"waiting for another command on cluster {name}")):
        _end(folder)
        folder.remove()
    return True


def names() -> list[str]:
    """Returns the names of the clusters that have left files on this machine, up or not."""
    return sorted(path.name for path in ClusterFolder.of(ClusterConfig.name).path.parent.glob("*"))


def _is_up(folder: ClusterFolder) -> bool:
    """Whether a cluster was started completely and any process of it is left."""
    return folder.is_complete() and any(process.state() is not State.ENDED for process in recorded(folder).values())


def _complete(config: ClusterConfig, folder: ClusterFolder, report: Report) -> MiniHadoop:
    """Thaws, mends and starts the missing parts of a running cluster."""
    there = folder.read_config()
    if config != there:
        wanted, existing = asdict(config), asdict(there)
        differing = ", ".join(f"{key} {existing[key]}" for key in existing if existing[key] != wanted[key])
        raise RefusedError(f"cluster {config.name} is up with another configuration ({differing}): take it down first")
    cluster = MiniHadoop(there, folder)
    for host in there.all_hosts:
        holder(folder, host.name)
    for host in (*there.name_hosts, *there.workers):
        cluster.mend(host.name)
    for daemon in cluster.daemons:
        where = daemon.kind.name, daemon.host.name
        if cluster.state(*where) is State.ENDED:
            report(f"starting {daemon.name} again")
            cluster.start(*where)
        cluster.thaw(*where)
    with cluster.inside():
        _activate(cluster)
        cluster.wait_until_up(START_DEADLINE_S)
    report(f"cluster {config.name} is up")
    return cluster


def _start(
    config: ClusterConfig, folder: ClusterFolder, jars: Distribution, options: list[str], report: Report
) -> MiniHadoop:
    began = time.monotonic()
    report(f"starting Hadoop {config.hadoop or hadoop_version()}, cluster {config.name}: {config.hosts} hosts")
    folder.create(config)
    if config.https:
        create_certificates(config, folder)
    for host in config.all_hosts:
        write_conf(config, folder, host)
    if config.secure:
        create_realm(config, folder, found())
    _make_hosts(config, folder, options)
    cluster = MiniHadoop(config, folder)
    for daemon in cluster.daemons:
        if daemon.kind is KDC:
            cluster.start(KDC.name)
            _log_in(cluster)
            continue
        if daemon.kind is NAMENODE and daemon.host == config.master:
            # The ResourceManager, where there is one, comes before and starts meanwhile.
            _format(cluster, jars)
        cluster.start(daemon.kind.name, daemon.host.name)
    with cluster.inside():
        _activate(cluster)
        cluster.wait_until_up(START_DEADLINE_S)
        cluster.hdfs.make_folder("/tmp", permission="1777")
        cluster.hdfs.make_folder("/user/root")
        if config.secure:
            _make_homes(cluster)
    folder.mark_complete()
    report(f"cluster {config.name} is up after {time.monotonic() - began:.0f} s")
    return cluster


def _log_in(cluster: MiniHadoop) -> None:
    """Gets the users' tickets, as soon as the KDC gives any."""

    def missing() -> str:
        try:
            cluster.login(SUPERUSER)
        except CommandError as error:
            return str(error)
        return ""

    wait_for("the KDC gives tickets", missing, _KDC_S, lambda: cluster.log_tail(KDC.name))
    for user in USERS:
        cluster.login(user)


def _make_homes(cluster: MiniHadoop) -> None:
    """Makes a home for each user; nobody else looks into it."""
    for user in USERS:
        if user != SUPERUSER:
            name = SHORT_NAMES.get(user, user)
            cluster.hdfs.make_folder(f"/user/{name}", "700")
            cluster.hdfs.set_owner(f"/user/{name}", name)


def _make_hosts(config: ClusterConfig, folder: ClusterFolder, edge_options: list[str]) -> None:
    """Makes and connects the namespaces of all hosts; the others share the edge's but for network and name."""
    _hold(folder, config.edge, ["unshare", *edge_options])
    edge = holder(folder, EDGE).pid
    for host in (*config.name_hosts, *config.workers):
        _hold(folder, host, command_in(edge, ["unshare", "--net", "--uts"]))
    if config.secure:
        _shell(edge, _OWN_ETC, str(folder.path))
    _shell(edge, f'mount --bind "$0" /etc/hosts; {_HIDE_NAME_CACHE}', str(folder.hosts_file))
    holders = {host.name: holder(folder, host.name).pid for host in config.all_hosts}
    for host in config.all_hosts:
        _shell(holders[host.name], 'hostname "$0"', host.fqdn)
    network.build(config, holders)


def _hold(folder: ClusterFolder, host: Host, prefix: list[str]) -> None:
    spawn(folder.record(holder_name(host.name)), _HOLD, folder.log("hosts"), environment(), prefix)


def _shell(pid: int, script: str, argument: str) -> None:
    """Runs a script in the namespaces of a process."""
    done = subprocess.run(command_in(pid, ["sh", "-ec", script, argument]), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"{script} ({argument}), exit code {done.returncode}: {done.stderr.strip()}")


def _format(cluster: MiniHadoop, jars: Distribution) -> None:
    arguments = ["-format", "-nonInteractive", "-force"]
    command = java_command(java_home(), jars, cluster.conf_dir(MASTER), NAMENODE.main_class, arguments)
    cluster.run(command, MASTER)
    for other in cluster.config.name_hosts[1:]:
        first, second = (cluster.folder.data(host) / "namenode" for host in (MASTER, other.name))
        shutil.copytree(first, second)


def _activate(cluster: MiniHadoop) -> None:
    """Makes the first NameNode of a pair active, if none is."""
    if cluster.config.namenodes == 1:
        return

    def missing() -> str:
        roles = [cluster.hdfs.role(host.name) for host in cluster.config.name_hosts]
        return "" if all(roles) else "not both answer"

    wait_for("both NameNodes answer", missing, START_DEADLINE_S, lambda: cluster.log_tail(NAMENODE.name, MASTER))
    if cluster.hdfs.active() is None:
        cluster.make_active(MASTER)


def _end(folder: ClusterFolder) -> None:
    """Ends every process of a cluster, and with these every namespace, network and mount."""
    folder.close_records()
    end_all(folder)
