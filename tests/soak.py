"""Trains for minutes while a process of the gang is killed every few seconds: each row must count once an epoch.

Under parameter servers, updates of what a lost worker was at may be made again: no more rows than the result tells of.

    make soak                   ten minutes, a kill every 20 s
    make soak ARGS="--minutes 2 --every 5 --seed 7 --strategy multi_worker_mirrored"

Killed are trainers, the nurseries that fork them, agents, in whose place others come, and the driver, whose run another
takes up. Real agents, trainers and checkpoints, without Spark. The model has one weight a row, which grows by one
in each update that has the row: what a run exports tells of each row in how many updates it was, whatever became of
its trainers.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from trainer import lake, reference, zoo
from trainer.local_gang import PROCESSES, LocalGang, LocalSite, keep_files_in

from sparktf.config.job import JobConfig

ROWS, EPOCHS = 40_000, 4
PARAMS = {"flavour": "keras", "rows": ROWS}


def job(folder: Path, strategy: str) -> JobConfig:
    """Returns runs of a gang of three, or two, that save every second and never give up."""
    is_served = strategy == "parameter_server"
    return lake.job(
        folder,
        "counted",
        data={"inputs": {"row": "row"}, "targets": {"price": "price"}, "shuffle_rows": 500},
        cluster={"strategy": strategy, "workers": 2, "ps": 1} if is_served else {"strategy": strategy, "workers": 3},
        params={**PARAMS, "by_sign": not is_served},
        train={"batch_size": 4, "steps_per_call": 8, "epochs": EPOCHS, "max_attempts": 1000},
        checkpoint={"every_seconds": 1},
        timeouts={"reserve": 60, "start": 60, "stop": 2, "driver_lost": 20, "heartbeat": 5, "replace": 20},
    )


class Killer:
    """Kills one process every few seconds, whichever it is: the driver's, an agent's, a nursery's or a trainer's."""

    def __init__(self, every_s: float, seed: int, until_s: float) -> None:
        """Begins; from `until_s` on, by the monotonic clock, nothing is killed, so that a run ends."""
        self._until_s = until_s
        self.killed: Counter[str] = Counter()
        self.driver = 0
        self._every_s, self._draw = every_s, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s) and time.monotonic() < self._until_s:
            with suppress(psutil.NoSuchProcess):
                found = self._victims()
                if found:
                    kind, victim = self._draw.choice(found)
                    victim.kill()
                    self.killed[kind] += 1

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        """Returns what may be killed, and what it is; nothing while the gang gathers, which takes longer."""
        if not self.driver:
            return []
        driver = psutil.Process(self.driver)
        found = [("driver", driver)]
        for server in driver.children():
            for agent in server.children():
                below = agent.children(recursive=True)
                found += [("agent", agent)] * bool(below) + [("trainer or nursery", child) for child in below]
        return found if len(found) > 1 else []


def reviving(gang: LocalGang, over: threading.Event) -> None:
    """Has another agent come in the place of each that is gone, as clusters do, until it is over."""
    while not over.wait(1):
        if gang.agents is not None:
            gang.agents.revive()


def main() -> int:
    """Trains run after run until the time is over; returns 1 if a run was not exact, or failed."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", default="parameter_server")
    parser.add_argument("--drive", nargs=2, metavar=("FOLDER", "RUN"), help="be the driver of a run")
    given: Any = parser.parse_args()
    if given.drive:
        return drive(Path(given.drive[0]), given.drive[1], given.strategy)
    until_s = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="sparktf-soak-", ignore_cleanup_errors=True) as name:
        lake.write(Path(name) / "lake", [ROWS // 80] * 80)
        killer = Killer(given.every, given.seed, until_s)
        wrong = runs = 0
        try:
            while time.monotonic() < until_s:
                runs += 1
                wrong += not trained(killer, Path(name), f"run-{runs}", given.strategy)
        finally:
            killer.stop()
    print(f"{runs} runs, killed: {dict(killer.killed)}, {wrong} runs wrong")
    return 1 if wrong or not killer.killed else 0


def trained(killer: Killer, folder: Path, run_id: str, strategy: str) -> bool:
    """Has drivers train, one after the other, until one of them ends by itself; returns whether all was right."""
    command = [sys.executable, __file__, "--strategy", strategy, "--drive", str(folder), run_id]
    for drivers in count(1):
        process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)})
        killer.driver = process.pid
        code = process.wait()
        killer.driver = 0
        if code != -signal.SIGKILL:
            print(f"{run_id}: {drivers} drivers, the last one ended with {code}", flush=True)
            return code == 0
    raise AssertionError


def drive(folder: Path, run_id: str, strategy: str) -> int:
    """Trains as the driver, or goes on where one has been killed; returns 1 if a row counts too often or not."""
    config = job(folder, strategy)
    gang = LocalGang(config, config.cluster.nodes, LocalSite(config.cluster.nodes, imports=True))
    over = threading.Event()
    thread = threading.Thread(target=reviving, args=(gang, over), daemon=True)
    with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=keep_files_in, initargs=(str(folder),)) as elsewhere:
        try:
            thread.start()
            return 0 if is_exact(gang, config, run_id, elsewhere) else 1
        finally:
            over.set()
            thread.join()
            gang.close()


def is_exact(gang: LocalGang, config: JobConfig, run_id: str, elsewhere: ProcessPoolExecutor) -> bool:
    """Trains, and tells how often rows were in an update."""
    began_s = time.monotonic()
    result = gang.train(config, run_id=run_id)
    counts = elsewhere.submit(counts_of, result.model).result()
    often, rows = np.unique(np.round(counts, 3), return_counts=True)
    told = ", ".join(f"{n} rows in {o:g}" for o, n in zip(often.tolist(), rows.tolist(), strict=True))
    again = sum(int(n - EPOCHS) * m for n, m in zip(often.tolist(), rows.tolist(), strict=True))
    may_be = sum(epoch.replayed for epoch in result.rows)
    losses = sum(len(attempt.losses) for attempt in result.attempts)
    print(
        f"{run_id}: {time.monotonic() - began_s:.0f} s, {len(result.attempts)} attempts, {losses} lost workers "
        f"replaced, {EPOCHS} epochs: {told} updates; {again} again, of {may_be} that may be",
        flush=True,
    )
    return bool(often.min() == EPOCHS and again <= may_be)


def counts_of(exported: str) -> reference.Values:
    """Returns in how many updates each row was, elsewhere: Keras knows the layer once the model is built."""
    zoo.counted(PARAMS, {})
    (counts,) = reference.weights_by_layer(exported)["price"]
    return counts


if __name__ == "__main__":
    sys.exit(main())
