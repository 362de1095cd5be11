"""A gang of `make bench-recovery`, whose trainers are taken away while it trains; what its processes say of that."""

from __future__ import annotations

import io
import random
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import psutil
from trainer import lake
from trainer.local_gang import LocalGang, LocalSite

from sparktf.config.job import JobConfig
from sparktf.results.result import RunResult

WITHIN_S = 120


class Process(NamedTuple):
    """A trainer that makes updates."""

    log: str  # "001-worker-2.3", of its third successor
    pid: int

    @property
    def node(self) -> str:
        """The node: "worker-2"."""
        return self.log.partition("-")[2].partition(".")[0]


class Taken(NamedTuple):
    """A trainer that was taken away, at a time in seconds, another one that was there, and who follows it."""

    lost_s: float
    victim: Process
    survivor: Process
    successor: Process


class Loss(NamedTuple):
    """The price of a trainer taken away; all in seconds.

    Attributes:
        stood_s: The longest gap between updates of another one that the loss falls into, or that follows it at once.
        joined_s: The same for the first update of its successor.
        pace_s: The median time between two updates.
        again_s: From the loss to the first update of its successor.
    """

    stood_s: float
    joined_s: float
    pace_s: float
    again_s: float


class Setting(NamedTuple):
    """What is trained.

    Attributes:
        bulk: Weights of the model, beside those that count rows.
        pace_s: The least time of an update until all losses are over.
    """

    rows: int
    batch: int
    epochs: int
    bulk: int = 1
    pace_s: float = 0.01
    heartbeat_s: float = 15.0

    def job(self, folder: Path) -> JobConfig:
        """Returns the configuration of a run of three workers."""
        lake.write(folder / "lake", [self.rows // 10] * 10)
        (folder / "stamps").mkdir()
        config = lake.job(
            folder,
            "counted",
            workers=3,
            params={"rows": self.rows, "stamps": str(folder / "stamps"), "bulk": self.bulk, "pace": self.pace_s},
            data={"inputs": {"row": "row"}, "targets": {"price": "price"}, "shuffle_rows": 500},
            cluster={"collectives": "sparktf"},
            train={"batch_size": self.batch, "epochs": self.epochs, "max_attempts": 3},
            timeouts={"start": 120, "heartbeat": self.heartbeat_s, "driver_lost": 60},
        )
        return config.model_copy(update={"model": "_recovery_models:build"})


class Losing:
    """A run under way; its stamps say who trains, and when."""

    def __init__(self, folder: Path, run: Future[RunResult], began_s: float) -> None:
        self._stamps = folder / "stamps"
        self._run = run
        self._began_s = began_s

    def first_s(self) -> float:
        """Returns the seconds from the run's start until all three have made an update."""
        self._wait("the first updates", lambda: len(self.processes()) == 3)
        return max(self.stamps(process)[0] for process in self.processes()) - self._began_s

    def processes(self) -> list[Process]:
        """Returns all that have made updates."""
        found = []
        for path in self._stamps.glob("*@*"):
            log, _, pid = path.name.rpartition("@")
            found.append(Process(log, int(pid)))
        return found

    def stamps(self, process: Process) -> list[float]:
        """Returns when a process has begun its updates."""
        lines = (self._stamps / f"{process.log}@{process.pid}").read_text().split("\n")
        return [float(line) for line in lines[:-1]]

    def lose(self, draw: random.Random, by: signal.Signals) -> Taken:
        """Takes a trainer away, whoever leads; returns once its successor has made updates."""
        members = self._training()
        victim = draw.choice(members)
        survivor = next(member for member in members if member != victim)
        before = set(self.processes())
        lost_s = time.monotonic()
        psutil.Process(victim.pid).send_signal(by)
        self._wait(f"a successor of {victim.log}", lambda: any(p.node == victim.node for p in self._new(before)))
        (successor,) = (p for p in self._new(before) if p.node == victim.node)
        self._wait("its updates", lambda: len(self.stamps(successor)) > 3)
        return Taken(lost_s, victim, survivor, successor)

    def loss(self, taken: Taken) -> Loss:
        """Returns what the stamps of a survivor and the successor say of a loss; called some time after it."""
        at, lost_s = np.array(self.stamps(taken.survivor)), taken.lost_s
        begin, gaps, first_s = at[:-1], np.diff(at), self.stamps(taken.successor)[0]
        # Hardly an update begins after the loss; what ended before was no stand-still for it, but an epoch's end.
        around = (begin + gaps > lost_s) & (begin < lost_s + 0.2)
        stood = int(np.argmax(np.where(around, gaps, 0)))
        later = (begin > begin[stood]) & (begin + gaps > first_s - 0.3) & (begin < first_s + 0.2)
        return Loss(float(gaps[stood]), float(np.max(gaps[later], initial=0)), float(np.median(gaps)), first_s - lost_s)

    def end(self) -> RunResult:
        """Has the run end soon; returns its result."""
        (self._stamps / "quick").touch()
        return self._run.result(20 * WITHIN_S)

    def _new(self, before: set[Process]) -> list[Process]:
        return [process for process in self.processes() if process not in before]

    def _training(self) -> list[Process]:
        found: list[Process] = []

        def all_train() -> bool:
            found[:] = [p for p in self.processes() if psutil.pid_exists(p.pid) and _is_recent(self.stamps(p))]
            return len({p.node for p in found}) == 3

        self._wait("three that train", all_train)
        return found

    def _wait(self, what: str, found: Callable[[], bool]) -> None:
        until_s = time.monotonic() + WITHIN_S
        while not found():
            if self._run.done():
                raise SystemExit(f"the run is over before {what}: {self._run.exception() or 'all is trained'}")
            if time.monotonic() > until_s:
                raise SystemExit(f"no {what} within {WITHIN_S} s")
            time.sleep(0.01)


@contextmanager
def losing(folder: Path, setting: Setting) -> Iterator[Losing]:
    """A gang of three real trainers, without Spark, whose run has begun."""
    folder.mkdir()
    config = setting.job(folder)
    gang = LocalGang(config, 3, LocalSite(3, imports=True))
    with ThreadPoolExecutor(1) as pool:
        began_s = time.monotonic()
        run = pool.submit(gang.train, config)
        try:
            yield Losing(folder, run, began_s)
        finally:
            run.exception()
            gang.close()


def losses(
    run: Losing, count: int, *, seed: int, by: signal.Signals = signal.SIGKILL, apart_s: float = 1.0
) -> list[Loss]:
    """Takes away one trainer after the other; returns what each has cost."""
    draw, found = random.Random(seed), []
    for number in range(count):
        time.sleep(draw.uniform(0.3, 0.3 + apart_s))
        taken = run.lose(draw, by)
        time.sleep(1.2)
        found.append(run.loss(taken))
        print(f"{number + 1}: {taken.victim.log} at pid {taken.victim.pid}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def wrong_rows(result: RunResult, rows: int, epochs: int) -> tuple[int, int]:
    """Returns how often rows were trained too much or too little, by weights and by accounts; and those replayed."""
    with zipfile.ZipFile(f"{result.model}/model.keras") as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
    counts: list[Any] = []
    with h5py.File(content) as file:
        file["layers"].visititems(lambda _, item: counts.append(item[()]) if _has_shape(item, rows) else None)
    wrong = int(np.abs(np.round(counts[0]) - epochs).sum())
    wrong += sum(abs(epoch.planned - epoch.trained) for epoch in result.rows)
    return wrong, sum(epoch.replayed for epoch in result.rows)


def _has_shape(item: Any, rows: int) -> bool:
    return isinstance(item, h5py.Dataset) and item.shape == (rows, 1)


def _is_recent(stamps: Sequence[float]) -> bool:
    return bool(stamps) and time.monotonic() - stamps[-1] < 1
