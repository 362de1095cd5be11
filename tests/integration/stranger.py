"""Another user of the same host: what of an application's sockets and files is open to it."""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from integration.sandbox import Sandbox

_SPARKS_FILES = ("liblz4-java-", "snappy-", "stdout", "stderr")
_LOCK = "_lock"
"""What Spark leaves open to all, and has nothing of a run in it: native libraries, empty files, and its own logs."""

_TABLES = ("tcp", "tcp6", "udp", "udp6", "unix")
_LISTENS = "0A"
_ACCEPTS = 0x10000
_LIMIT_S = 120

# It begins in the folder, and leaves its rights behind before it looks: what lies above the folder is the test's own.
# Where the test is no root, it cannot become another user, and goes by what the modes say of others.
_STRANGER = """
import json, os, socket, stat, sys
asked = json.load(sys.stdin)
if is_root := os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

def allowed(path, bit):
    above = [os.path.dirname(path[:i]) for i in range(len(path)) if path[i] == "/"]
    return os.stat(path).st_mode & bit and all(os.stat(folder or ".").st_mode & stat.S_IXOTH for folder in above)

def read(path):
    if not is_root and not allowed(path, stat.S_IROTH):
        return False
    with open(path, "rb") as file:
        file.read(1)
    return True

def call(kind, where):
    if kind == "unix" and not is_root and not allowed(where, stat.S_IWOTH):
        return False
    kinds = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET] if kind == "unix" else [socket.SOCK_STREAM]
    for one in kinds:
        with socket.socket({"unix": socket.AF_UNIX, "tcp": socket.AF_INET}[kind], one) as calling:
            calling.settimeout(5)
            try:
                calling.connect(where if kind == "unix" else ("127.0.0.1" if where[0] == "any" else where[0], where[1]))
                calling.sendall(bytes.fromhex(asked["says"]))
            except OSError:
                continue
            try:
                calling.recv(1)
            except OSError:
                pass
            return True
    return False

def tried(act, *what):
    try:
        return act(*what)
    except OSError:
        return False

files = [os.path.join(at, name) for at, _, names in os.walk(".") for name in names]
plain = [path for path in files if tried(lambda: stat.S_ISREG(os.lstat(path).st_mode))]
sockets = [path for path in files if tried(lambda: stat.S_ISSOCK(os.lstat(path).st_mode))]
print(json.dumps({
    "read": [path for path in plain if tried(read, path)],
    "called": [path for path in sockets if tried(call, "unix", path)],
    "answered": [where for where in asked["tcp"] if tried(call, "tcp", where)],
}))
"""


class Listener(NamedTuple):
    """A socket that a process takes calls at.

    Attributes:
        kind: "tcp", "udp" or "unix".
        host: Of TCP and UDP; of a unix socket, its path.
    """

    pid: int
    kind: str
    host: str
    port: int = 0


class Found(NamedTuple):
    """What was open to a stranger.

    Attributes:
        read: Files below the folder, but for what is Spark's.
        called: Unix sockets below the folder.
        answered: TCP addresses that took what it said.
    """

    read: list[str]
    called: list[str]
    answered: list[tuple[str, int]]


class Trap:
    """A pickle that leaves a file behind where somebody loads it."""

    def __init__(self, place: Path) -> None:
        self._place = place
        pickle.loads(self.says())
        assert place.exists(), "the trap works"
        place.unlink()

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._place,)

    @property
    def has_caught(self) -> bool:
        """Whether somebody has loaded it."""
        return self._place.exists()

    def says(self, framed: bool = False) -> bytes:
        """Returns the pickle; framed, as TensorFlowOnSpark's reservation server expects one."""
        content = pickle.dumps(self)
        return struct.pack(">I", len(content)) + content if framed else content


def look(sandbox: Sandbox, tcp: Sequence[tuple[str, int]] = (), says: bytes = b"hello") -> Found:
    """Has another user read all files of an application, and call all of its sockets there and all TCP addresses.

    Of its files, the runs' are what users share, and its output is the test's.
    """
    folder = sandbox.folder
    (folder / "open").write_text("to all")
    done = subprocess.run(
        [sys.executable, "-I", "-c", _STRANGER],
        input=json.dumps({"tcp": tcp, "says": says.hex()}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=True,
    )
    found = Found(**json.loads(done.stdout))
    assert "./open" in found.read, "the stranger can look"
    return found._replace(read=[path for path in found.read if _is_of_a_run(Path(path))])


def _is_of_a_run(path: Path) -> bool:
    is_sparks = path.name.startswith(_SPARKS_FILES) or path.name.endswith(_LOCK)
    return not is_sparks and path.parts[0] != "runs" and path.name not in ("open", "output.log")


def listeners(processes: Iterable[psutil.Process]) -> list[Listener]:
    """Returns all sockets that some processes listen at, as the kernel tells it by their open files."""
    found: set[Listener] = set()
    for process in processes:
        with suppress(OSError):
            inodes = _inodes(process.pid)
            found |= {listener for inode, listener in _open_sockets(process.pid) if inode in inodes}
    return sorted(found)


def _inodes(pid: int) -> set[str]:
    targets = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            targets.append(os.readlink(entry))
    return {target.removeprefix("socket:[")[:-1] for target in targets if target.startswith("socket:[")}


def _open_sockets(pid: int) -> Iterator[tuple[str, Listener]]:
    for table in _TABLES:
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            part = line.split()
            if table == "unix":
                if int(part[3], 16) & _ACCEPTS:
                    yield part[6], Listener(pid, "unix", " ".join(part[7:]))
            elif part[3] == _LISTENS or (table.startswith("udp") and part[2].endswith(":0000")):
                yield part[9], Listener(pid, table[:3], *_address(part[1]))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    words = [int(host[i : i + 8], 16) for i in range(0, len(host), 8)]
    data = struct.pack(f"={len(words)}I", *words)
    if data[:12] == bytes(10) + b"\xff\xff":
        data = data[12:]
    shown = socket.inet_ntop(socket.AF_INET6 if len(data) == 16 else socket.AF_INET, data)
    return ("any" if shown in ("0.0.0.0", "::") else shown), int(port, 16)
