"""Training end to end beside a script that is written by hand: `make bench-training`.

Both train one epoch of the same 5 M rows with the same model in two processes on this machine, alternating. sparktf is
started as users start it, by spark-submit on local[2]; Spark's own start and end are shown apart. Beside them, a run of
one worker, and what two workers of one core each are worth: two such runs, and runs of one worker on one core with half
the rows an update, of this model and of one with 17 MB of gradients.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _clock import clocked
from _lake import float_columns, write_lake
from _one_core import scaling
from _report import figure, report
from _submit import submit

SCHEMA = float_columns(5_000_000, 125_000)
WORKERS, BATCH, RUNS = 2, 2_048, 5
HERE = Path(__file__).parent
TIMEOUT_S = 600


class Times(NamedTuple):
    """One training.

    Attributes:
        rows_s: Rows per second after the first call into TensorFlow.
        rows_cpu_s: Rows per second of processor time of both trainers, after the first call.
        seconds: The whole run, without Spark's start and end.
        spark_s: Spark's start and end.
        first_s: From the run's start to the end of the first call.
    """

    rows_s: float
    rows_cpu_s: float
    seconds: float
    first_s: float
    spark_s: float = 0.0


def by_hand(folder: Path, work: Path) -> Times:
    """Runs the hand-written script's workers."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(WORKERS)]
    workers = [f"127.0.0.1:{server.getsockname()[1]}" for server in held]
    for server in held:
        server.close()
    outs = [work / f"{i}.json" for i in range(WORKERS)]
    started = time.time()
    processes = []
    for i, out in enumerate(outs):
        place = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}}
        command = [sys.executable, str(HERE / "_handwritten.py"), str(folder), str(BATCH), str(out)]
        environment = {**os.environ, "TF_CONFIG": json.dumps(place)}
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
    try:
        codes = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(codes):
        raise SystemExit(f"the hand-written script ended with {codes}")
    found = [json.loads(out.read_text()) for out in outs]
    first, end = max(f["first"] for f in found), max(f["end"] for f in found)
    rows = sum(f["rows"] for f in found) - BATCH
    return Times(rows / (end - first), rows / sum(f["cpu"] for f in found), end - started, first - started)


def with_sparktf(folder: Path, work: Path, workers: int) -> Times:
    """Submits a run, and reads its times from what it wrote."""
    work.mkdir()
    run = submit(folder, work, SCHEMA, workers=workers, batch_size=BATCH)
    first, last = max(calls[0] for calls in run.trainers), max(calls[-1] for calls in run.trainers)
    rows = SCHEMA.rows - first.step * BATCH
    return Times(
        rows_s=rows / (last.time_s - first.time_s),
        rows_cpu_s=rows / sum(calls[-1].cpu_s - calls[0].cpu_s for calls in run.trainers),
        seconds=run.seconds,
        first_s=first.time_s - run.began_s,
        spark_s=run.submitted_s - run.seconds,
    )


def restart(folder: Path, work: Path) -> float:
    """Kills a trainer in mid-training; returns the seconds from then to the end of the next attempt's first call."""
    work.mkdir()
    killed: list[float] = []

    def kill(work: Path) -> None:
        while True:
            time.sleep(0.05)
            trainers = clocked(work)
            if len(trainers) == WORKERS and all(len(trainer.calls) > 1 for trainer in trainers):
                killed.append(time.time())
                os.kill(trainers[0].pid, signal.SIGKILL)
                return

    run = submit(folder, work, SCHEMA, workers=WORKERS, batch_size=BATCH, meanwhile=kill)
    again = [calls[0].time_s for calls in run.trainers if calls[0].time_s > killed[0]]
    if len(again) != WORKERS:
        raise SystemExit(f"{len(again)} trainers were started again")
    return max(again) - killed[0]


def main() -> None:
    """Measures and reports."""
    runs = int(os.environ.get("RUNS", RUNS))
    ours, alone, theirs, again = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        folder = write_lake(Path(root) / "lake", SCHEMA)
        for run in range(runs):
            work = Path(root) / str(run)
            work.mkdir()
            theirs.append(by_hand(folder, work))
            ours.append(with_sparktf(folder, work / "both", WORKERS))
            alone.append(with_sparktf(folder, work / "alone", 1))
            again.append(restart(folder, work / "again"))
            print(f"by hand {theirs[-1]}\nsparktf {ours[-1]}", file=sys.stderr, flush=True)
        scaled = scaling(Path(root) / "one-core", runs)
    rates = np.array([t.rows_s for t in ours]), np.array([t.rows_s for t in theirs])
    by_cpu = [mine.rows_cpu_s / other.rows_cpu_s for mine, other in zip(ours, theirs, strict=True)]
    seconds = np.array([t.seconds for t in ours]), np.array([t.seconds for t in theirs])
    report(
        "training",
        [
            figure("by hand: after the first call", rates[1] / 1e3, unit="k rows/s"),
            figure("sparktf: after the first call", rates[0] / 1e3, unit="k rows/s"),
            figure("sparktf / by hand, rows/s after the first call", rates[0] / rates[1], unit="ratio", goal=">= 5"),
            figure("sparktf / by hand, rows by processor time after the first call", by_cpu, unit="ratio"),
            figure("by hand: start to the end of the first call", [t.first_s for t in theirs], unit="s"),
            figure("sparktf: start to the end of the first call", [t.first_s for t in ours], unit="s"),
            figure(
                "sparktf / by hand, start to the end of the first call",
                [mine.first_s / other.first_s for mine, other in zip(ours, theirs, strict=True)],
                unit="ratio",
                goal="<= 0.5",
            ),
            figure("sparktf: killed trainer to the end of the next attempt's first call", again, unit="s"),
            figure(
                "sparktf: restart after a killed trainer / first start",
                [seconds / mine.first_s for seconds, mine in zip(again, ours, strict=True)],
                unit="ratio",
                goal="<= 0.6",
            ),
            figure("by hand: whole run", seconds[1], unit="s"),
            figure("sparktf: whole run", seconds[0], unit="s"),
            figure("sparktf / by hand, speed of the whole run", seconds[1] / seconds[0], unit="ratio", goal=">= 2.5"),
            figure("sparktf, one worker: after the first call", [t.rows_s / 1e3 for t in alone], unit="k rows/s"),
            figure("Spark's own start and end, apart", [t.spark_s for t in ours], unit="s"),
            *scaled,
        ],
    )


if __name__ == "__main__":
    main()
