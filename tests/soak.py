"""Trains for minutes while a process of the gang is killed every few seconds: each row must count once an epoch.

Under parameter servers, updates of what a lost worker was at may be made again: no more rows than the result tells of.

    make soak                   ten minutes, a kill every 20 s
    make soak ARGS="--minutes 2 --every 5 --seed 7 --strategy multi_worker_mirrored"

Real agents, trainers and checkpoints, without Spark. The model has one weight a row, which grows by one in each update
that has the row: what a run exports tells of each row in how many updates it was, whatever became of its trainers.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
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
        cluster={"strategy": strategy, "workers": 2, **({"ps": 1} if is_served else {})},
        params={**PARAMS, "by_sign": not is_served},
        train={"batch_size": 4, "steps_per_call": 8, "epochs": EPOCHS, "max_attempts": 1000},
        checkpoint={"every_seconds": 1},
        timeouts={"reserve": 60, "start": 60, "stop": 2, "driver_lost": 20, "heartbeat": 5, "replace": 20},
    )


class Killer:
    """Kills one process of the gang's every few seconds, whichever it is but the agents: nobody starts those here."""

    def __init__(self, gang: LocalGang, every_s: float, seed: int) -> None:
        self.killed = 0
        self._gang, self._every_s, self._draw = gang, every_s, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            children = self._gang.agents.children() if self._gang.agents is not None else []
            if children:
                with suppress(psutil.NoSuchProcess):
                    self._draw.choice(children).kill()
                    self.killed += 1


def main() -> int:
    """Trains run after run until the time is over; returns 1 if a run was not exact, or failed."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", default="parameter_server")
    given: Any = parser.parse_args()
    until_s = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="sparktf-soak-") as name:
        folder = Path(name)
        lake.write(folder / "lake", [ROWS // 80] * 80)
        config = job(folder, given.strategy)
        gang = LocalGang(config, config.cluster.nodes, LocalSite(config.cluster.nodes, imports=True))
        killer = Killer(gang, given.every, given.seed)
        wrong = runs = 0
        with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=keep_files_in, initargs=(name,)) as elsewhere:
            try:
                while time.monotonic() < until_s:
                    runs += 1
                    wrong += not is_exact(gang, config, f"run-{runs}", elsewhere)
            finally:
                killer.stop()
                gang.close()
    print(f"{runs} runs, {killer.killed} processes killed, {wrong} runs wrong")
    return 1 if wrong or not killer.killed else 0


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
