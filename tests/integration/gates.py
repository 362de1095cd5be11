"""Gates that trainers of `cases.gated` wait at, and what these have said: also those whose graph is made elsewhere."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from integration.processes import Family, wait_for

_UPDATE = re.compile(r"^update of \[([\d ]+)\]$", re.MULTILINE)
_LOG = re.compile(r"\d+-(.+)\.log")


class Waiting(NamedTuple):
    """A trainer that waits at a gate.

    Attributes:
        name: Of its log: "worker-0", or "worker-0.1" for its first successor.
        updates: Ids of the rows of each of its updates; it waits in the last.
    """

    name: str
    process: psutil.Process
    updates: tuple[tuple[int, ...], ...]


class Pipe:
    """A pipe that nobody reads until it is opened: who writes a file of this path waits.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pipe = path.with_suffix(".pipe")
        self._readers: list[int] = []
        os.mkfifo(self._pipe)
        os.link(self._pipe, path)

    def open(self) -> None:
        """Lets all pass, those that wait and those to come."""
        regular = self.path.with_suffix(".open")
        regular.touch()
        regular.replace(self.path)
        self._readers.append(os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK))

    def close(self) -> None:
        """Lets all go for ever."""
        self.open()
        for reader in self._readers:
            os.close(reader)


class Gates:
    """Two gates: `first` before the rows whose id is an odd multiple of `every`, `second` before even ones."""

    def __init__(self, folder: Path, every: int) -> None:
        folder.mkdir()
        self._every = every
        self.first, self.second = self._pipes = Pipe(folder / "first"), Pipe(folder / "second")

    def params(self) -> dict[str, Any]:
        """Returns `params` for `cases.gated`."""
        return {"gates": [str(gate.path) for gate in self._pipes], "every": self._every}

    def close(self) -> None:
        """Lets all trainers go for ever."""
        for gate in self._pipes:
            gate.close()

    def waiting(self, family: Family, gate: Pipe, count: int, *, within_s: float = 120) -> list[Waiting]:
        """Waits until so many trainers wait at a gate; returns them by name."""
        rest = self._every if gate is self.first else 0

        def found() -> list[Waiting]:
            known = (said for process in family.trainers() if (said := _said(process)))
            here = [one for one in known if any(i % (2 * self._every) == rest for i in one.updates[-1])]
            return sorted(here, key=lambda one: one.name) if len(here) >= count else []

        return wait_for(f"{count} trainers wait at a gate", found, within_s=within_s)


def _said(process: psutil.Process) -> Waiting | None:
    with suppress(OSError):  # it may end between any two looks
        stderr = f"/proc/{process.pid}/fd/2"
        log = _LOG.fullmatch(Path(os.readlink(stderr)).name)
        updates = _UPDATE.findall(Path(stderr).read_text())
        if log and updates:
            return Waiting(log[1], process, tuple(tuple(map(int, ids.split())) for ids in updates))
    return None
