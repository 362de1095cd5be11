"""Linux namespaces: what this user may do with them, how a command gets into a host's, and how this process does."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from minihadoop.environment import PROGRAM
from minihadoop.errors import MiniHadoopError, RefusedError

_CLONE_FS = 0x200
# Kind -> (flag of setns(2), option of nsenter); the user namespace comes first: it gives the right to the others.
_KINDS = {
    "user": (0x10000000, "--user"),
    "mnt": (0x00020000, "--mount"),
    "net": (0x40000000, "--net"),
    "uts": (0x04000000, "--uts"),
}
_AS_ROOT_OF_ITS_OWN = ("--user", "--map-root-user")
_LIBC = ctypes.CDLL(None, use_errno=True)


def edge_options(user_namespace: bool) -> list[str]:
    """Returns the options of unshare(1) for the namespaces that hold a cluster: as root, else as root of a namespace.

    Raises:
        RefusedError: Neither is possible here.
    """
    private = ["--mount", "--net", "--uts"]
    said = ""
    for rights in [_AS_ROOT_OF_ITS_OWN] if user_namespace else [(), _AS_ROOT_OF_ITS_OWN]:
        options = [*rights, *private]
        done = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return options
        said = done.stderr.strip()
    raise RefusedError(
        "network namespaces are needed: run as root, or allow user namespaces "
        f"(user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns, the container's seccomp): {said}"
    )


def as_root(command: Sequence[str]) -> list[str]:
    """Returns the command such that it may build clusters, enter them and leave them again.

    That is the command itself for root; else the command as root of a user namespace, and with a network of its own,
    too, for there is no way back into one that belongs to another.

    Raises:
        RefusedError: Neither is possible here.
    """
    options = edge_options(user_namespace=False)
    if options[0] != _AS_ROOT_OF_ITS_OWN[0]:
        return list(command)
    return ["unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]


def command_in(pid: int, command: Sequence[str], folder: Path | None = None) -> list[str]:
    """Returns a command that runs `command` in the namespaces of a process.

    Args:
        pid: A process of the host.
        command: The command.
        folder: Where it works; else in this process's working directory.
    """
    kinds = [kind for kind in _KINDS if _namespace("self", kind) != _namespace(str(pid), kind)]
    entering = ["nsenter", "--target", str(pid), *(_KINDS[kind][1] for kind in kinds)] if kinds else []
    if "user" in kinds:
        entering.append("--preserve-credentials")
    # Who enters a mount namespace finds himself at its root.
    moving = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder or Path.cwd())] if folder or "mnt" in kinds else []
    return [*entering, *moving, *command]


def shares_network(pid: int) -> bool:
    """Whether the calling thread is in the network namespace of a process."""
    return _namespace("thread-self", "net") == _namespace(str(pid), "net")


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """Moves the calling thread, and what it starts, into the namespaces of a process, and back in the end.

    There is no way back out of a user namespace: who entered one stays.

    Raises:
        MiniHadoopError: The kernel refuses, above all a process with threads that has to enter a user namespace.
    """
    kinds = [kind for kind in _KINDS if _namespace("thread-self", kind) != _namespace(str(pid), kind)]
    with ExitStack() as opened:
        here = [(kind, _open(opened, "thread-self", kind)) for kind in kinds]
        there = [(kind, _open(opened, str(pid), kind)) for kind in kinds]
        _enter(there)
        try:
            yield
        finally:
            if "user" not in kinds:
                _enter(here)


def _enter(namespaces: Sequence[tuple[str, int]]) -> None:
    folder = os.getcwd()
    if any(kind == "mnt" for kind, _ in namespaces):
        _call("unshare", _CLONE_FS)  # a thread that shares its working directory may not change its mounts
    for kind, descriptor in namespaces:
        _call("setns", descriptor, _KINDS[kind][0])
    os.chdir(folder)


def _call(function: str, *arguments: int) -> None:
    if getattr(_LIBC, function)(*arguments) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MiniHadoopError(
            f"this process cannot enter the cluster ({function}: {reason}): "
            f"start it there with `{PROGRAM} exec -- COMMAND`, or with `{PROGRAM} as-root -- COMMAND`"
        )


def _open(opened: ExitStack, process: str, kind: str) -> int:
    descriptor = os.open(_path(process, kind), os.O_RDONLY)
    opened.callback(os.close, descriptor)
    return descriptor


def _namespace(process: str, kind: str) -> str:
    return os.readlink(_path(process, kind))


def _path(process: str, kind: str) -> Path:
    return Path("/proc") / process / "ns" / kind
