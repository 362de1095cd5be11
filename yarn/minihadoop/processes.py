"""The cluster's processes: records that survive their writer, and the proof that a process is ours before it is ended.

A process is known by its pid and the time it started; the record is the kernel's own line about it, which the process
writes itself before it becomes the daemon. So there is no moment at which a daemon runs unrecorded.
"""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from minihadoop.errors import MiniHadoopError, NotReadyError
from minihadoop.layout import ClusterFolder
from minihadoop.waiting import wait_for

_PROC = Path("/proc")
_GONE = (ProcessLookupError, FileNotFoundError)


class State(enum.Enum):
    """The states of a process."""

    RUNNING = "running"
    FROZEN = "frozen"
    ENDED = "ended"


@dataclass(frozen=True)
class Process:
    """One process for ever: the pid alone would name another one some day."""

    pid: int
    start_ticks: int

    def state(self) -> State:
        stat = _read_stat(self.pid)
        if stat is None or stat.process != self or stat.code in "ZX":
            return State.ENDED
        return State.FROZEN if stat.code in "Tt" else State.RUNNING

    def send(self, number: signal.Signals) -> bool:
        """Sends a signal to this process, never to a later one of the same pid; returns whether it was there."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if self.state() is State.ENDED:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


@dataclass(frozen=True)
class _Stat:
    process: Process
    code: str
    parent: int


def spawn(
    record: Path,
    command: Sequence[str],
    log: Path,
    variables: Mapping[str, str],
    prefix: Sequence[str],
) -> None:
    """Starts a process that outlives this one, and waits until it has written its record.

    Args:
        record: Where it records itself before it becomes `command`.
        command: The program.
        log: File for its output.
        variables: Its environment.
        prefix: Command that enters the namespaces of the process, followed by the program.

    Raises:
        NotReadyError: It did not record itself.
    """
    record.unlink(missing_ok=True)
    recorded_command = ["sh", "-c", 'cat "/proc/$$/stat" >"$0" && exec "$@"', str(record), *command]
    with log.open("ab") as out:
        # setsid: no Ctrl-C of our terminal reaches it; and it is nobody's child who would have to wait for it.
        subprocess.run(
            ["setsid", "--fork", *prefix, *recorded_command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=variables,
            check=True,
        )
    wait_for(f"start of {record.name}", lambda: "" if read_record(record) else "no process", 10, lambda: _end_of(log))


def read_record(record: Path) -> Process | None:
    """Returns the process of a record; None if nothing is recorded there."""
    with suppress(FileNotFoundError):
        stat = _parse_stat(record.read_text(encoding="utf-8", errors="replace"))
        return stat.process if stat else None
    return None


def recorded(folder: ClusterFolder) -> dict[str, Process]:
    """Returns the recorded processes of a cluster by name, also those that have ended since."""
    if not folder.is_of_this_boot():
        return {}
    found = {record.name: read_record(record) for record in folder.records()}
    return {name: process for name, process in found.items() if process}


def holder(folder: ClusterFolder, host: str) -> Process:
    """Returns the process that holds the namespaces of a host.

    Raises:
        MiniHadoopError: It is gone.
    """
    process = read_record(folder.record(holder_name(host)))
    if process is None or process.state() is State.ENDED:
        raise MiniHadoopError(f"the namespaces of {host} are gone: take the cluster down")
    return process


def holder_name(host: str) -> str:
    """Returns the name of the record of a host's holder."""
    return f"holder@{host}"


def owned(folder: ClusterFolder) -> set[Process]:
    """Returns every process that belongs to the cluster, but for this one and those that it descends from.

    Ours are the recorded ones and what shares a network namespace with one of these. So is what works below the folder
    in another network than this process: the containers of a host of which nothing else is left.
    """
    alive = {process for process in recorded(folder).values() if process.state() is not State.ENDED}
    networks = {network for process in alive if (network := _link(process.pid, "ns/net"))}
    here = _link(os.getpid(), "ns/net")
    below = f"{folder.path.resolve()}/"
    found = set(alive)
    for stat in _all_processes():
        network = _link(stat.process.pid, "ns/net")
        works_below = network not in (None, here) and f"{_link(stat.process.pid, 'cwd')}/".startswith(below)
        if stat.code not in "ZX" and (network in networks or works_below):
            found.add(stat.process)
    spared = _lineage()
    return {process for process in found if process.pid not in spared}


def end_all(folder: ClusterFolder, deadline_s: float = 20) -> None:
    """Ends every process of the cluster, and those that they start meanwhile.

    Raises:
        NotReadyError: Some are still there at the deadline.
    """
    deadline = time.monotonic() + deadline_s
    while remaining := owned(folder):
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in sorted(remaining, key=lambda process: process.pid))
            raise NotReadyError(f"these processes do not end within {deadline_s:g} s of kill -9: {pids}")
        for process in remaining:
            process.send(signal.SIGKILL)
        time.sleep(0.05)


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])


def _all_processes() -> Iterator[_Stat]:
    for entry in os.listdir(_PROC):
        if entry.isdigit() and (stat := _read_stat(int(entry))):
            yield stat


def _lineage() -> set[int]:
    """Returns the pids of this process and of its ancestors."""
    pids: set[int] = set()
    pid = os.getpid()
    while pid and (stat := _read_stat(pid)):
        pids.add(pid)
        pid = stat.parent
    return pids


def _link(pid: int, name: str) -> str | None:
    """Returns where a link of a process points; None if it is gone, or not ours to look at."""
    with suppress(OSError):
        return os.readlink(_PROC / str(pid) / name)
    return None


def _read_stat(pid: int) -> _Stat | None:
    with suppress(*_GONE):
        return _parse_stat((_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace"))
    return None


def _parse_stat(line: str) -> _Stat | None:
    """Returns what `pid (name) state ppid ... starttime ...` says; the name may hold spaces and parentheses."""
    head, _, tail = line.rpartition(") ")
    fields = tail.split()
    if not head or len(fields) < 20:
        return None
    return _Stat(Process(int(head.partition(" ")[0]), int(fields[19])), code=fields[0], parent=int(fields[1]))
