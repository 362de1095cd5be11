"""Two members of a gang on two hosts, which are network namespaces, and a link between them that is cut.

`python linked_hosts.py` is member 0, within a namespace of its own: it makes another, with member 1, and the link.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from sparktf.errors import NodeLostError
from sparktf.knobs import KNOBS
from sparktf.trainer.sync.exchange.linked import LinkedExchange, partners
from sparktf.trainer.sync.exchange.meeting import Membership, Peer, link_members
from sparktf.wire.security import TlsMaterial

HOSTS = ("10.99.0.1", "10.99.0.2")
LARGE = 6_000_000
"""Float32 numbers: more than the buffers of both ends."""

_NOWHERE = "02:00:00:00:00:01"
_LIMIT_S = 240


def run_cut(options: list[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what each member has got, and what each has been told after the link was cut.

    Args:
        options: Those of unshare(1) that give the right to make namespaces.
        settings: `unanswered_s`, `computes_s` (how long member 1 lets member 0 wait) and `tls`.
    """
    command = ["unshare", *options, sys.executable, __file__]
    done = subprocess.run(
        command, input=json.dumps(settings), capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


class _Member:
    """One of the two, in this process."""

    def __init__(self, rank: int, settings: dict[str, Any]) -> None:
        KNOBS.unanswered_s = settings["unanswered_s"]
        members = [Peer(f"worker {i}", host, 4_000) for i, host in enumerate(HOSTS)]
        own = Membership(rank, 1, 1, "secret", TlsMaterial.model_validate(settings["tls"]))
        links = link_members(members, own, partners(rank, 2))
        self._exchange = LinkedExchange(rank, 2, 0, links, attempt=1)

    def sums(self, computes_s: float = 0) -> list[float]:
        """Returns means of sums of all sizes; computes for so long before the last one."""
        found = []
        for size in (4, LARGE):
            time.sleep(computes_s * (size > 4))
            found.append(float(self._exchange.sum([np.full(size, 1, np.float32)])[0].mean()))
        return found

    def told(self) -> list[str]:
        """Returns the type and the words of the error with which the exchange ends."""
        try:
            self._exchange.from_leader([np.zeros(LARGE, np.float32)])  # member 1 sends nothing, and only waits
        except NodeLostError as error:
            return [type(error).__name__, str(error)]
        return []


def _lead(settings: dict[str, Any]) -> None:
    command = ["unshare", "--net", sys.executable, __file__, "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()  # it is in its namespace
        there = ["nsenter", "--target", str(other.pid), "--net"]
        _ip([], "link add here type veth peer name there netns", str(other.pid))
        for enter, device, host in (([], "here", HOSTS[0]), (there, "there", HOSTS[1])):
            _ip(enter, f"addr add {host}/24 dev", device)
            _ip(enter, "link set up dev", device)
        _say(other.stdin, json.dumps(settings))
        member = _Member(0, settings)
        sums = member.sums()
        theirs = json.loads(other.stdout.readline())
        # As where a firewall drops what comes: nobody is told that these frames reach no one.
        for enter, device, host in (([], "here", HOSTS[1]), (there, "there", HOSTS[0])):
            _ip(enter, f"neigh replace {host} lladdr {_NOWHERE} nud permanent dev", device)
        _say(other.stdin, "cut")
        told = member.told()
        print(json.dumps([{"sums": sums, "told": told}, {"sums": theirs, "told": json.loads(other.stdout.readline())}]))


def _follow() -> None:
    print("here", flush=True)
    settings = json.loads(sys.stdin.readline())
    member = _Member(1, settings)
    print(json.dumps(member.sums(settings["computes_s"])), flush=True)
    sys.stdin.readline()
    print(json.dumps(member.told()), flush=True)


def _ip(enter: list[str], words: str, last: str) -> None:
    subprocess.run([*enter, "ip", *words.split(), last], check=True)


def _say(pipe: Any, line: str) -> None:
    pipe.write(f"{line}\n")
    pipe.flush()


if __name__ == "__main__":
    if sys.argv[1:]:
        _follow()
    else:
        _lead(json.loads(sys.stdin.read()))
