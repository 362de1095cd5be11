"""Shortens TensorFlow's error about a lost peer to one line that names the node."""

from __future__ import annotations

import re
from itertools import takewhile

from sparktf.topology import ClusterSpec

_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")
_ABORTED = "Collective ops is aborted by: "
_REPORTED = re.compile(r"^Error reported from \S+: ")
_AROUND = re.compile(
    r"Graph execution error:|Detected at node |File \"|\[\[\{\{node |<stack traces unavailable>"
    r"|\d+ root error\(s\) found|The error could be from a previous "
)
"""Beginnings of lines that name places in the graph."""
_PREFIX = re.compile(r"^(\{\{function_node [^}]*\}\} |\(\d+\) [A-Z_]+: +)+")


def said_of_peers(text: str, cluster: ClusterSpec) -> str:
    """Returns an error's text with TensorFlow's task names replaced by nodes and addresses.

    TensorFlow puts a stack of the graph before the text, and the tasks that it means on lines of their own.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [_PREFIX.sub("", line) for line in lines if line and not _AROUND.match(line)]
    begin = next((i for i, line in enumerate(lines) if _ABORTED in line), 0)
    first, rest = lines[begin : begin + 1], lines[begin + 1 :]
    said = _REPORTED.sub("", first[0].partition(_ABORTED)[2] or first[0]) if first else ""
    if said.endswith(":"):
        said = f"{said} {', '.join(takewhile(_TASK.fullmatch, rest))}".rstrip(": ")
    elif found := next((line for line in rest if _TASK.search(line) or line.startswith("RPC: ")), ""):
        said = f"{said} ({found.rstrip(':')})"
    return _TASK.sub(lambda task: _node(task, cluster), said)


def _node(task: re.Match[str], cluster: ClusterSpec) -> str:
    role, index = task[1], int(task[2])
    addresses = {"chief": cluster.chief, "worker": cluster.worker, "ps": cluster.ps}.get(role, ())
    return f"{role} {index} at {addresses[index]}" if index < len(addresses) else task[0]
