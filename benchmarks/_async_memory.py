"""Memory of the trainers of an asynchronous run while a large checkpoint is committed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from _async_runs import WIDTH, run, table, trainer_pids
from _clock import clocked
from _watch import Sampler

LARGE_ROWS = 7_812_500
"""Rows of a table which is 1 GB with what Adagrad keeps of it."""
_SAVE_STEPS, _UPDATES, _SERVERS = 200, 600, 2
_LOOK_S = 0.05


class Growth(NamedTuple):
    """Bytes.

    Attributes:
        coordinator: By which it grew while a checkpoint was committed.
        server: By which a parameter server was ever larger than without variables, beyond what it holds.
    """

    coordinator: float
    server: float


class Resident(Sampler[dict[str, int]]):
    """Resident bytes of each trainer of a run, by role and index, from when its coordinator makes the model."""

    def __init__(self, work: Path) -> None:
        super().__init__(self._look, _LOOK_S)
        self._work = work
        self._pids: dict[str, int] = {}

    def between(self, name: str, start_s: float, stop_s: float) -> list[int]:
        """Returns what a trainer had between two times of the clock."""
        return [found[name] for at_s, found in self.samples if start_s <= at_s <= stop_s and name in found]

    def _look(self) -> dict[str, int]:
        if not self._pids and clocked(self._work):
            self._pids = trainer_pids()
        found = {}
        for name, pid in self._pids.items():
            with suppress(OSError):  # it has ended
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                found[name] = pages * os.sysconf("SC_PAGE_SIZE")
        return found


def grow(folder: Path, work: Path) -> Growth:
    """Trains a table that is 1 GB with its slots, which two parameter servers share, with checkpoints amid it."""
    committed: dict[str, float] = {}
    with Resident(work) as resident:
        done = run(
            folder,
            work,
            table(_UPDATES, LARGE_ROWS),
            servers=_SERVERS,
            every_steps=_SAVE_STEPS,
            meanwhile=_noting_commits(committed),
        )
    (trainer,) = done.clocked
    save = next(save for save in trainer.saves if save.step == _SAVE_STEPS)
    (stored_s,) = (at_s for name, at_s in committed.items() if int(name.removeprefix("step-")) == _SAVE_STEPS)
    before = resident.between("chief-0", save.began_s - 2 * _LOOK_S, save.began_s)[-1]
    during = resident.between("chief-0", save.began_s, stored_s)
    held = 2 * 4 * WIDTH * LARGE_ROWS / _SERVERS
    servers = [resident.between(f"ps-{i}", 0, done.began_s + done.seconds) for i in range(_SERVERS)]
    return Growth(max(during) - before, max(max(server) - server[0] for server in servers) - held)


def _noting_commits(committed: dict[str, float]) -> Callable[[Path], None]:
    def look(work: Path) -> None:
        while True:
            for folder in work.glob("runs/*/*/checkpoints/step-*"):
                committed.setdefault(folder.name, time.time())
            time.sleep(_LOOK_S)

    return look
