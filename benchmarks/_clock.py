"""What a benchmark has trainers write down while they train: when updates came, who made them, and saves.

A model calls `clock` when it is built: in sparktf, that is within the process that trains, before its loop begins.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

CALLS, SAVES = ".calls", ".saves"


class Call(NamedTuple):
    """Updates have come: the end of a call of a trainer into TensorFlow, or of one of a worker's executions.

    Attributes:
        step: Updates made so far.
        resident: Bytes of the process in memory.
        cpu_s: Processor time of the process so far.
        by: In a coordinator, whose updates these were: "worker 0.1" is the first successor of worker 0.
    """

    time_s: float
    step: int
    resident: int
    cpu_s: float
    by: str = ""


class Save(NamedTuple):
    """A checkpoint was written, uploads apart, for which training stood still."""

    began_s: float
    ended_s: float
    step: int


class Clocked(NamedTuple):
    """What a trainer has written down."""

    pid: int
    calls: list[Call]
    saves: list[Save]


def clock(folder: Path) -> None:
    """Has this trainer write down its calls, each a line of `<pid>.calls`, and saves, from now on.

    A model is built twice, the second one for evaluation, and clocked once.
    """
    for module, watch in (("sync.loop", _clock_sync), ("parameter_server.coordinator", _clock_coordinator)):
        loaded = sys.modules.get(f"sparktf.trainer.{module}")  # which of them a trainer has, its role says
        if loaded is not None and not hasattr(loaded, "is_clocked"):
            loaded.is_clocked = True  # type: ignore[attr-defined]
            watch(loaded, folder / str(os.getpid()))


def clocked(folder: Path) -> list[Clocked]:
    """Returns what trainers have written down so far."""
    return [
        Clocked(int(file.stem), [Call(*line) for line in _read(file)], [Save(*line) for line in _read_saves(file)])
        for file in sorted(folder.glob(f"*{CALLS}"))
    ]


def _read_saves(file: Path) -> list[Any]:
    saves = file.with_suffix(SAVES)
    return _read(saves) if saves.exists() else []


def _read(file: Path) -> list[Any]:
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _writer(path: Path, suffix: str) -> Callable[..., None]:
    out = path.with_suffix(suffix).open("a", buffering=1)
    return lambda *values: print(json.dumps(values), file=out)


def _call(write: Callable[..., None], step: int, by: str = "") -> None:
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    write(time.time(), step, resident, time.process_time(), by)


def _clock_sync(loop: Any, path: Path) -> None:
    run_call, write = loop.SyncLoop._run_call, _writer(path, CALLS)

    def clocked(self: Any, *args: Any) -> None:
        run_call(self, *args)
        _call(write, self.position.step)

    loop.SyncLoop._run_call = clocked


def _clock_coordinator(coordinator: Any, path: Path) -> None:
    take, write, write_save = coordinator.Tally.take, _writer(path, CALLS), _writer(path, SAVES)
    save, made = coordinator.CoordinatedRun.save, [0]

    def clocked(self: Any, answer: bytes) -> Any:
        receipts = take(self, answer)
        for receipt in receipts:
            made[0] += receipt.steps
            _call(write, made[0], f"{receipt.node}.{receipt.incarnation}")
        return receipts

    def clocked_save(self: Any, *args: Any) -> None:
        began_s = time.time()
        save(self, *args)
        write_save(began_s, time.time(), made[0])

    coordinator.Tally.take, coordinator.CoordinatedRun.save = clocked, clocked_save
