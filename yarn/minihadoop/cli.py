"""The command line: up, down, status, and commands on the cluster's hosts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from minihadoop import lifecycle
from minihadoop.cluster import MiniHadoop
from minihadoop.config import EDGE, HADOOPS, ClusterConfig
from minihadoop.daemons import DATANODE, NAMENODE, NODEMANAGER, RESOURCEMANAGER, TOOLS, Daemon, Kind
from minihadoop.environment import PROGRAM
from minihadoop.errors import MiniHadoopError, RefusedError
from minihadoop.hdfs import DataNodeState
from minihadoop.health import datanode_views, nodemanager_views
from minihadoop.jars import resolve
from minihadoop.layout import ClusterFolder
from minihadoop.namespaces import as_root
from minihadoop.prerequisites import check_tools
from minihadoop.processes import State
from minihadoop.yarn import NodeState

_COLOURS = {State.RUNNING: "green", State.FROZEN: "yellow", State.ENDED: "red"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except MiniHadoopError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return code


def _up(arguments: argparse.Namespace) -> int:
    folder = ClusterFolder.of(arguments.name)
    base = folder.read_config() if folder.is_complete() else ClusterConfig(arguments.name)
    cluster = lifecycle.up(replace(base, **_asked_for(arguments)), _say)
    _show(cluster)
    return 0


def _asked_for(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of the configuration that the command line names."""
    plain = ("hosts", "block_mib", "replication", "host_memory_mib", "host_vcores", "namenodes", "hadoop")
    asked = {key: getattr(arguments, key) for key in plain}
    asked |= {
        "secure": arguments.secure or None,
        "user_namespace": arguments.user_namespace or None,
        "https": arguments.https or None,
    }
    asked["secure"] = arguments.secure or None
    if arguments.set:
        asked["settings"] = tuple(_setting(text) for text in arguments.set)
    if arguments.replication is None and arguments.hosts == 1:
        asked["replication"] = 1
    return {key: value for key, value in asked.items() if value is not None}


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise RefusedError(f"--set {text}: must be KEY=VALUE")
    return key, value


def _down(arguments: argparse.Namespace) -> int:
    for name in lifecycle.names() if arguments.all else [arguments.name]:
        found = lifecycle.down(name, _say)
        _say(f"cluster {name} is down" if found else f"there is no cluster {name}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    if not ClusterFolder.of(arguments.name).is_complete():
        _say(f"there is no cluster {arguments.name}")
        return 1
    cluster = MiniHadoop.attach(arguments.name)
    return 0 if _show(cluster) else 1


def _exec(arguments: argparse.Namespace) -> int:
    cluster = MiniHadoop.attach(arguments.name)
    return _become(
        cluster.command(_command(arguments), arguments.host), cluster.environment(arguments.host, arguments.user)
    )


def _tool(arguments: argparse.Namespace) -> int:
    cluster = MiniHadoop.attach(arguments.name)
    command = cluster.tool_command(arguments.tool, arguments.arguments)
    return _become(cluster.command(command), cluster.environment(user=arguments.user))


def _as_root(arguments: argparse.Namespace) -> int:
    check_tools()
    resolve(_say, arguments.hadoop or "")  # the command may have no network to download it from
    return _become(as_root(_command(arguments)), dict(os.environ))


def _become(command: list[str], environment: dict[str, str]) -> int:
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise RefusedError(f"{command[0]}: {error.strerror}") from error


def _command(arguments: argparse.Namespace) -> list[str]:
    words: list[str] = arguments.command
    words = words[1:] if words[:1] == ["--"] else words
    return words or [os.environ.get("SHELL", "sh")]


def _show(cluster: MiniHadoop) -> bool:
    """Prints the daemons and how to use the cluster; returns whether all daemons run."""
    with cluster.inside():
        views: dict[Kind, Mapping[str, DataNodeState | NodeState]] = {
            DATANODE: datanode_views(cluster.hdfs),
            NODEMANAGER: nodemanager_views(cluster.yarn),
        }
    table = Table("daemon", "host", "pid", "address", "process", "seen as", box=None, pad_edge=False)
    states = {daemon: cluster.state(daemon.kind.name, daemon.host.name) for daemon in cluster.daemons}
    for daemon, state in states.items():
        view = views.get(daemon.kind, {}).get(daemon.host.name)
        table.add_row(*_row(cluster, daemon, state), view.value if view else "")
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=True)
    console.print(table)
    for line in _directions(cluster):
        console.print(line, markup=False)
    return all(state is State.RUNNING for state in states.values())


def _row(cluster: MiniHadoop, daemon: Daemon, state: State) -> list[str]:
    process = cluster.process(daemon.kind.name, daemon.host.name)
    return [
        daemon.kind.name,
        daemon.host.name,
        str(process.pid) if process else "-",
        f"{daemon.host.address}:{daemon.kind.port}",
        f"[{_COLOURS[state]}]{state.value}[/]",
    ]


def _directions(cluster: MiniHadoop) -> list[str]:
    name = cluster.config.name
    command = PROGRAM if name == ClusterConfig.name else f"{PROGRAM} --name {name}"
    web = [daemon.web_url for daemon in cluster.daemons if daemon.kind in (NAMENODE, RESOURCEMANAGER)]
    return [
        "",
        f"web pages       {'  '.join(web)}",
        f"HADOOP_CONF_DIR {cluster.conf_dir()}",
        f"logs            {cluster.folder.logs}",
        f"a command       {command} exec -- COMMAND        (sets HADOOP_CONF_DIR)",
        f"... on a host   {command} exec --host host1 -- COMMAND",
        f"Hadoop's tools  {command} tool fs -ls /          (also {', '.join(tool for tool in TOOLS if tool != 'fs')})",
    ]


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="minihadoop", description="A real HDFS and YARN on this machine.")
    parser.add_argument("--name", default=ClusterConfig.name, help="which cluster; default: %(default)s")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands.add_parser("up", help="bring the cluster up, or what is missing of it"))
    down = commands.add_parser("down", help="end every process of it and remove all its files")
    down.add_argument("--all", action="store_true", help="all clusters of this user")
    down.set_defaults(run=_down)
    commands.add_parser("status", help="show its daemons and how to use it").set_defaults(run=_status)
    execute = commands.add_parser("exec", help="run a command on one of its hosts")
    execute.add_argument("--host", default=EDGE, help="default: %(default)s, from where the cluster is used")
    execute.add_argument("--user", help="whose ticket it has, on a secured cluster: alice, bob, or root; default: none")
    execute.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    execute.set_defaults(run=_exec)
    tool = commands.add_parser("tool", help="run a command line tool of Hadoop's on it")
    tool.add_argument("--user", help="as for exec")
    tool.add_argument("tool", choices=TOOLS)
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    tool.set_defaults(run=_tool)
    root = commands.add_parser("as-root", help="run a command that may build clusters, whoever you are")
    root.add_argument("--hadoop", choices=HADOOPS, help="version of Hadoop of the clusters that it builds")
    root.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    root.set_defaults(run=_as_root)
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    numbers = {
        "--hosts": "hosts with DataNode and NodeManager",
        "--block-mib": "HDFS block size",
        "--replication": "replicas of a block",
        "--host-memory-mib": "memory of a host for containers",
        "--host-vcores": "virtual cores of a host",
        "--namenodes": "1, or 2 of which one stands by",
    }
    defaults = ClusterConfig()
    for option, meaning in numbers.items():
        default = getattr(defaults, option.strip("-").replace("-", "_"))
        parser.add_argument(option, type=int, metavar="N", help=f"{meaning}; default: {default}")
    parser.add_argument(
        "--set", action="append", metavar="KEY=VALUE", help="a Hadoop property over those of minihadoop"
    )
    parser.add_argument("--secure", action="store_true", help="Kerberos, users alice and bob, privacy on the wire")
    parser.add_argument("--hadoop", choices=HADOOPS, help=f"version of Hadoop; default: {HADOOPS[-1]}")
    parser.add_argument(
        "--https", action="store_true", help="YARN and HDFS speak HTTPS; clients are told of nothing else"
    )
    parser.add_argument("--user-namespace", action="store_true", help="do without root's rights, even as root")
    parser.set_defaults(run=_up)
