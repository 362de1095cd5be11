"""The diagnoses of the nodes that a run would get, by the words of their agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from sparktf.config.job import JobConfig
from sparktf.doctor.diagnosis import Diagnosis, fine, note, stop
from sparktf.told import count_in_words
from sparktf.wire.node_look import NodeFound, NodesFound

_SHOWN = 3
"""Hosts, and faults, that a line names."""

_NAMES = {"python": "Python", "sparktf": "sparktf", "tensorflow": "TensorFlow", "pyarrow": "PyArrow"}
_NO_DISK_MIB, _LITTLE_DISK_MIB = 256, 4096
_SKEW_S = 10.0


def judge_gang(config: JobConfig, found: NodesFound, reserve_s: float, room: str = "") -> list[Diagnosis]:
    """Returns the diagnoses of the nodes, one to three.

    Args:
        reserve_s: How long a run would wait for its nodes, in seconds.
        room: What the cluster manager says of the room that it has; "" where it says nothing.
    """
    if not found.nodes:
        return [judge_nodes(found, reserve_s, room)]
    return [judge_nodes(found, reserve_s, room), judge_hosts(config, found.nodes), judge_network(config, found)]


def judge_nodes(found: NodesFound, reserve_s: float, room: str = "") -> Diagnosis:
    """Returns the diagnosis of who came, and with what; arguments as of `judge_gang`."""
    faults = faults_of(found.nodes)
    if len(found.nodes) < found.wanted or not found.nodes:
        faults.append(_too_few(found, reserve_s, room))
    if faults:
        return stop("nodes", _some(faults))
    told = f"{len(found.nodes)} in {found.waited_s:.0f} s on {_hosts(found.nodes)}"
    if found.error:
        return stop("nodes", f"{told}, and then: {found.error}")
    of_node = found.nodes[0].versions
    versions = ", ".join(f"{name} {of_node[key]}" for key, name in _NAMES.items() if key in of_node)
    surprise = _differing_pyarrow(found) or _silent(found.nodes)
    return note("nodes", f"{told}: {versions}; {surprise}") if surprise else fine("nodes", f"{told}: {versions}")


def _differing_pyarrow(found: NodesFound) -> str:
    """Returns which node has another PyArrow than the driver, "" if none has: runs accept that."""
    here = found.versions.get("pyarrow", "missing")
    other = next((node for node in found.nodes if node.versions.get("pyarrow") != here), None)
    if other is None or here == "missing":
        return ""
    there = other.versions.get("pyarrow", "missing")
    return f"PyArrow is {there} on {other.host} and {here} here: run both from one environment (sparktf pack)"


def _silent(nodes: Sequence[NodeFound]) -> str:
    silent = [node for node in nodes if node.facts is None]
    return f"{_hosts(silent)} told no more in time: see what keeps these hosts busy" if silent else ""


def faults_of(nodes: Sequence[NodeFound]) -> list[str]:
    """Returns why trainers could not start, or not import the model, each with the hosts that it is true of."""
    hosts: dict[str, list[str]] = {}
    for node in nodes:
        for fault in (*node.problems, *_lacks(node)):
            hosts.setdefault(fault, []).append(node.host)
    return [f"on {_named(where)}: {fault}" for fault, where in hosts.items()]


def _lacks(node: NodeFound) -> list[str]:
    if node.facts is None or not node.facts.missing:
        return []
    return [
        f"the model imports {', '.join(node.facts.missing)}, which {node.facts.python} lacks: install them there, or "
        "bring an environment that has them (sparktf pack)"
    ]


def _too_few(found: NodesFound, reserve_s: float, room: str) -> str:
    if found.error:
        return found.error
    where = f" (on {_hosts(found.nodes)})" if found.nodes else ""
    told = f"of {found.wanted} nodes on {found.place}, {len(found.nodes)} came within {found.waited_s:.0f} s{where}"
    if len(found.executors) >= found.wanted:
        return (
            f"{told}, though there are executors on {_named(found.executors)}: their tasks do not reach the driver at "
            f"{found.control}, or do not start: let cluster.control_port pass from there, and see the executors' logs"
        )
    ways = ["free some executors", "lower cluster.workers"]
    if reserve_s > found.waited_s:
        ways.append(f"see whether more come within timeouts.reserve ({reserve_s:g} s), as long as a run waits")
    known = f"; {room}" if room else ""
    return f"{told}{known}: {', or '.join(ways)}"


def judge_hosts(config: JobConfig, nodes: Sequence[NodeFound]) -> Diagnosis:
    """Returns the diagnosis of disks, memory and clocks."""
    told = [(node, node.facts) for node in nodes if node.facts is not None]
    if not told:
        return note("hosts", "no node has told of its disk in time")
    parts = []
    rooms = [(facts.disk.free_mib, facts.disk.folder, node.host) for node, facts in told if facts.disk is not None]
    if rooms:
        free_mib, folder, host = min(rooms)
        parts.append(f"at least {free_mib:,} MiB of disk free ({disk_of(folder)} on {host})")
    memory = [(facts.memory_free_mib, node.host) for node, facts in told if facts.memory_free_mib is not None]
    if memory:
        parts.append(f"{min(memory)[0]:,} MiB of memory ({min(memory)[1]})")
    worst = max(told, key=lambda one: abs(one[0].ahead_s))[0]
    parts.append(f"clocks within {max(abs(worst.ahead_s), 0.1):.1f} s of this one")
    text = ", ".join(parts)
    if rooms and min(rooms)[0] < _NO_DISK_MIB:
        mend = "make room there, or name others in yarn.nodemanager.local-dirs, or spark.local.dir without YARN"
        return stop("hosts", f"{text}: {mend}")
    if abs(worst.ahead_s) > _SKEW_S:
        return note("hosts", f"{text}, that of {worst.host} differs most: have all follow one time server")
    if crowded := _crowded(config, {host: mib for mib, host in memory}, [node.host for node, _ in told]):
        return note("hosts", f"{text}, and {crowded}")
    if rooms and min(rooms)[0] < _LITTLE_DISK_MIB:
        return note("hosts", f"{text}, which Spark's shuffles and copies of the data may fill")
    return fine("hosts", text)


def _crowded(config: JobConfig, free_mib: Mapping[str, int], hosts: Sequence[str]) -> str:
    """Returns which host has less memory than its trainers may take, "" if none has."""
    each = config.cluster.node_memory.mib
    for host, free in free_mib.items():
        if free < each * hosts.count(host):
            trainers = count_in_words(hosts.count(host), "trainer")
            return f"{trainers} on {host} may take {each * hosts.count(host):,} MiB: lower cluster.trainer_memory_mib"
    return ""


def judge_network(config: JobConfig, found: NodesFound) -> Diagnosis:
    """Returns the diagnosis of the network between the nodes; that they reach the driver they have shown by coming."""
    failed = [
        f"{node.host} does not reach {link.address} ({link.failure})"
        for node in found.nodes
        for link in node.links
        if link.failure
    ]
    ports = config.cluster.node_ports
    named = f"cluster.node_ports: {ports}" if ports != "0" else "any port, since cluster.node_ports is 0"
    if failed:
        return stop("network", f"{_some(failed)}: let {named}, pass between all hosts of the cluster")
    address = found.control.rpartition("://")[2]
    driver = f"all reach the driver here at {address}" if ":" in address else "all reach the driver here by a socket"
    if not any(node.links for node in found.nodes):
        untried = len(found.nodes) > 1
        return note("network", f"{driver}; each other was not tried in time") if untried else fine("network", driver)
    return fine("network", f"{driver}, and each other at {named}")


def disk_of(folder: str) -> str:
    """Returns the part of an application's folder that is there for all applications, as it is configured."""
    parts = PurePosixPath(folder).parts
    own = (i for i, part in enumerate(parts) if part == "usercache" or part.startswith("spark-"))
    return str(PurePosixPath(*parts[: next(own, len(parts))]))


def _hosts(nodes: Sequence[NodeFound]) -> str:
    return _named([node.host for node in nodes])


def _named(hosts: Sequence[str]) -> str:
    known = list(dict.fromkeys(hosts))
    return ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")


def _some(faults: Sequence[str]) -> str:
    return "; ".join(faults[:_SHOWN]) + (f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else "")
