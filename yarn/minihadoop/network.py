"""The cluster's network: a bridge on the edge, and a cable (a veth pair) from there to every other host."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minihadoop.config import ClusterConfig, Host
from minihadoop.errors import CommandError
from minihadoop.namespaces import command_in

BRIDGE = "bridge"
_PREFIX_LENGTH = 24


@dataclass(frozen=True)
class LinkBytes:
    """Bytes that went over a host's link since the cluster started, headers included, as the host sees them."""

    sent: int
    received: int

    def __sub__(self, earlier: LinkBytes) -> LinkBytes:
        return LinkBytes(self.sent - earlier.sent, self.received - earlier.received)


def port(host: str) -> str:
    """Returns the name of the edge's end of a host's cable."""
    return f"to-{host}"


def build(config: ClusterConfig, holders: Mapping[str, int]) -> None:
    """Connects the hosts.

    Args:
        config: The cluster.
        holders: Host's name -> pid of the process that holds its namespaces.

    Raises:
        CommandError: The kernel refuses, or lacks bridges or veth pairs.
    """
    plugged = [host for host in config.all_hosts if host != config.edge]
    commands = ["link set lo up", f"link add {BRIDGE} type bridge", *_address(config.edge, BRIDGE)]
    for host in plugged:
        commands.append(f"link add {port(host.name)} type veth peer name eth0 netns {holders[host.name]}")
        commands.append(f"link set {port(host.name)} master {BRIDGE} up")
    _configure(holders[config.edge.name], commands)
    for host in plugged:
        _configure(holders[host.name], ["link set lo up", *_address(host, "eth0")])


def set_link(edge: int, host: str, up: bool) -> None:
    """Mends or cuts the cable of a host."""
    _configure(edge, [f"link set {port(host)} {'up' if up else 'down'}"])


def link_is_up(edge: int, host: str) -> bool:
    """Whether the cable of a host is whole."""
    return "UP" in _show(edge, host)["flags"]


def link_bytes(edge: int, host: str) -> LinkBytes:
    """Returns the counters of a host's cable."""
    # What the edge's end receives, the host has sent.
    counters = _show(edge, host)["stats64"]
    return LinkBytes(sent=counters["rx"]["bytes"], received=counters["tx"]["bytes"])


def _address(host: Host, interface: str) -> list[str]:
    return [f"addr add {host.address}/{_PREFIX_LENGTH} dev {interface}", f"link set {interface} up"]


def _configure(pid: int, commands: Sequence[str]) -> None:
    _ip(pid, ["-batch", "-"], "\n".join([*commands, ""]))


def _show(edge: int, host: str) -> dict[str, dict[str, dict[str, int]]]:
    [link] = json.loads(_ip(edge, ["-json", "-statistics", "link", "show", "dev", port(host)]))
    return dict(link)


def _ip(pid: int, arguments: Sequence[str], commands: str | None = None) -> str:
    """Runs ip(8) in the namespaces of a process."""
    command = command_in(pid, ["ip", *arguments])
    done = subprocess.run(command, input=commands, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"ip {' '.join(arguments)}, exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout
