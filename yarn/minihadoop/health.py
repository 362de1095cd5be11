"""The conditions that a cluster lacks to be up, in words, and the log that may say why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minihadoop.daemons import DATANODE, NAMENODE, NODEMANAGER, RESOURCEMANAGER
from minihadoop.errors import CommandError
from minihadoop.hdfs import DataNodeState, Hdfs
from minihadoop.web import UNREACHABLE
from minihadoop.yarn import NodeState, Yarn

_NO_ANSWER = (*UNREACHABLE, CommandError)


@dataclass(frozen=True)
class Missing:
    """An unfulfilled condition; `kind` and `host` name the daemon that it depends on."""

    what: str
    kind: str
    host: str | None = None


def first_missing(hdfs: Hdfs, yarn: Yarn | None) -> Missing | None:
    """Returns the first unfulfilled condition: writable HDFS, every DataNode live, every NodeManager running."""
    return _missing_in_hdfs(hdfs) or (None if yarn is None else _missing_in_yarn(yarn))


def datanode_views(hdfs: Hdfs) -> dict[str, DataNodeState]:
    """Returns host -> how the NameNode sees its DataNode; nothing if it does not answer."""
    try:
        return hdfs.datanode_states()
    except _NO_ANSWER:
        return {}


def nodemanager_views(yarn: Yarn) -> dict[str, NodeState]:
    """Returns host -> how the ResourceManager sees its NodeManager; nothing if it does not answer."""
    try:
        return yarn.node_states()
    except _NO_ANSWER:
        return {}


def _missing_in_hdfs(hdfs: Hdfs) -> Missing | None:
    try:
        states, writable = hdfs.datanode_states(), hdfs.is_writable()
    except _NO_ANSWER as error:
        return Missing(f"the NameNode does not answer ({error})", NAMENODE.name)
    away = {host: state for host, state in states.items() if state is not DataNodeState.LIVE}
    if away:
        return Missing(f"DataNodes are not live: {_listed(away)}", DATANODE.name, next(iter(away)))
    if not writable:
        return Missing("the NameNode is in safe mode", NAMENODE.name)
    # For some seconds, the NameNode takes a DataNode that was started again for the one that was killed.
    deaf = next((host for host in states if not hdfs.datanode_answers(host)), None)
    return Missing(f"the DataNode of {deaf} does not answer yet", DATANODE.name, deaf) if deaf else None


def _missing_in_yarn(yarn: Yarn) -> Missing | None:
    try:
        states = yarn.node_states()
    except _NO_ANSWER as error:
        return Missing(f"the ResourceManager does not answer ({error})", RESOURCEMANAGER.name)
    away = {host: state for host, state in states.items() if state is not NodeState.RUNNING}
    if away:
        return Missing(f"NodeManagers are not running: {_listed(away)}", NODEMANAGER.name, next(iter(away)))
    return None


def _listed(states: Mapping[str, DataNodeState | NodeState]) -> str:
    return ", ".join(f"{host} ({state.value})" for host, state in states.items())
