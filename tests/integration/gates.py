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


class Gates:
    """Two gates: `first` before the rows whose id is an odd multiple of `every`, `second` before even ones."""

    def __init__(self, folder: Path, every: int) -> None:
        folder.mkdir()
        self._every = every
        self.first, self.second = self._paths = folder / "first", folder / "second"
        self._readers: list[int] = []
        for gate in self._paths:
            os.mkfifo(_pipe(gate))
            os.link(_pipe(gate), gate)

    def params(self) -> dict[str, Any]:
        """Returns `params` for `cases.gated`."""
        return {"gates": [str(gate) for gate in self._paths], "every": self._every}

    def open(self, gate: Path) -> None:
        """Lets all trainers pass, those that wait and those to come."""
        regular = gate.with_suffix(".open")
        regular.touch()
        regular.replace(gate)
        self._readers.append(os.open(_pipe(gate), os.O_RDONLY | os.O_NONBLOCK))

    def close(self) -> None:
        """Lets all trainers go for ever."""
        for gate in self._paths:
            self.open(gate)
        for reader in self._readers:
            os.close(reader)

    def waiting(self, family: Family, gate: Path, count: int, *, within_s: float = 120) -> list[Waiting]:
        """Waits until so many trainers wait at a gate; returns them by name."""
        rest = self._every if gate == self.first else 0

        def found() -> list[Waiting]:
            known = (said for process in family.trainers() if (said := _said(process)))
            here = [one for one in known if any(i % (2 * self._every) == rest for i in one.updates[-1])]
            return sorted(here, key=lambda one: one.name) if len(here) >= count else []

        return wait_for(f"{count} trainers wait at a gate", found, within_s=within_s)


def _pipe(gate: Path) -> Path:
    return gate.with_suffix(".pipe")


def _said(process: psutil.Process) -> Waiting | None:
    with suppress(OSError):  # it may end between any two looks
        stderr = f"/proc/{process.pid}/fd/2"
        log = _LOG.fullmatch(Path(os.readlink(stderr)).name)
        updates = _UPDATE.findall(Path(stderr).read_text())
        if log and updates:
            return Waiting(log[1], process, tuple(tuple(map(int, ids.split())) for ids in updates))
    return None
