"""Asynchronous runs of sparktf, as users start them, and what their coordinator has written down of them."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from _clock import Call, Clocked, clocked
from _lake import Schema, float_columns, id_columns
from _submit import Run, submit_config

WIDTH, TABLE_ROWS = 16, 1_562_500
"""Of a table which is 200 MB with what Adagrad keeps of it."""


class Workload(NamedTuple):
    """What is trained.

    Attributes:
        schema: Of the rows.
        batch: Rows of an update.
    """

    name: str
    model: str
    schema: Schema
    batch: int
    params: dict[str, Any] = {}


def dense(updates: int) -> Workload:
    """An MLP of 8-64-64-1."""
    return Workload("MLP 8-64-64-1", "_async_models:build", float_columns(32 * updates, 16_000, columns=8), 32)


def table(updates: int, rows: int = TABLE_ROWS) -> Workload:
    """A table of which an update uses 1,024 rows."""
    schema = id_columns(256 * updates, 16_000, columns=4, ids=TABLE_ROWS)
    params = {"rows": rows, "width": WIDTH}
    return Workload(f"table of {rows:,} x {WIDTH}", "_async_models:build_table", schema, 256, params)


def server_bound() -> Workload:
    """A table that the parameter servers pass over in each update."""
    schema = id_columns(256 * 300, 16_000, columns=4, ids=1_000_000)
    params = {"rows": 1_000_000, "width": WIDTH}
    return Workload("table passed over", "_async_models:build_server_bound", schema, 256, params)


def worker_bound() -> Workload:
    """Much to compute with few weights."""
    return Workload(
        "100 layers of the same 64 units",
        "_async_models:build_worker_bound",
        float_columns(2_048 * 300, 16_000, columns=8),
        2_048,
    )


def advice(done: Run) -> str:
    """Returns what a run has advised; ends the process if that is nothing."""
    attempt = done.result["attempts"][-1]
    if not attempt["advice"]:
        raise SystemExit(f"the run advised nothing: {[(node['node'], node['usage']) for node in attempt['nodes']]}")
    return str(attempt["advice"])


def run(
    folder: Path,
    work: Path,
    load: Workload,
    *,
    workers: int = 2,
    servers: int = 1,
    every_steps: int | None = None,
    meanwhile: Callable[[Path], None] | None = None,
) -> Run:
    """Trains one epoch with jobs/train.py on local[n]; ends the process if that fails or loses a row."""
    config = {
        "name": "bench",
        "model": load.model,
        "params": {**load.params, "times": str(work)},
        "data": {"path": str(folder), "inputs": load.schema.inputs, "targets": {"y": "y"}},
        "cluster": {"strategy": "parameter_server", "workers": workers, "ps": servers},
        "train": {"batch_size": load.batch},
        "checkpoint": {"every_steps": every_steps, "every_seconds": None},
        "output": {"path": str(work / "runs")},
    }
    done = submit_config(config, work, slots=1 + workers + servers, meanwhile=meanwhile)
    if done.result["rows_trained"] != load.schema.rows:
        raise SystemExit(f"{done.result['rows_trained']} of {load.schema.rows} rows were trained")
    return done


def steps_s(calls: list[Call]) -> float:
    """Returns the updates per second, from when each worker had made some."""
    began = max(first_calls(calls).values(), key=lambda call: call.time_s)
    return (calls[-1].step - began.step) / (calls[-1].time_s - began.time_s)


def first_calls(calls: list[Call]) -> dict[str, Call]:
    """Returns when the first updates of each incarnation of a worker came."""
    return {call.by: call for call in reversed(calls)}


def stood_still_s(trainer: Clocked) -> list[float]:
    """Returns for each checkpoint amid training how long no update was made for it.

    That is from the last update before it until the first one after it is handed out: after it, nothing is to be
    waited for.
    """
    return [
        save.ended_s - before[-1].time_s
        for save in trainer.saves
        if (before := [call for call in trainer.calls if call.time_s <= save.began_s])
        and trainer.calls[-1].time_s > save.ended_s
    ]


class Loss(NamedTuple):
    """A worker that was killed.

    Attributes:
        gap_s: The longest time without an update, from then on.
        first_s: From the start of the first trainer to the first updates of that worker.
        again_s: From its end to the first updates of its successor.
    """

    gap_s: float
    first_s: float
    again_s: float


def lose_worker(folder: Path, work: Path, load: Workload) -> Loss:
    """Trains, and kills worker 1 after both have made updates for two seconds."""
    killed: list[float] = []
    started: list[float] = []

    def kill(work: Path) -> None:
        while not _trained_for(work, 2.0):
            time.sleep(0.05)
        pids = trainer_pids()
        started.append(min(psutil.Process(pid).create_time() for pid in pids.values()))
        killed.append(time.time())
        os.kill(pids["worker-1"], signal.SIGKILL)

    (trainer,) = run(folder, work, load, meanwhile=kill).clocked
    firsts = first_calls(trainer.calls)
    if "worker 1.1" not in firsts:
        raise SystemExit("the killed worker's successor made no update: give it a longer epoch")
    times = [killed[0], *(call.time_s for call in trainer.calls if call.time_s > killed[0])]
    return Loss(
        gap_s=max(after - before for before, after in pairwise(times)),
        first_s=firsts["worker 1.0"].time_s - started[0],
        again_s=firsts["worker 1.1"].time_s - killed[0],
    )


def _trained_for(work: Path, seconds: float) -> bool:
    calls = [call for trainer in clocked(work) for call in trainer.calls]
    firsts = first_calls(calls).values()
    return len(firsts) > 1 and time.time() - max(call.time_s for call in firsts) > seconds


def trainer_pids() -> dict[str, int]:
    """Returns the trainers that this process has running somewhere below it, by role and index: "worker-1"."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(OSError):  # it has ended meanwhile
            log = os.readlink(f"/proc/{process.pid}/fd/1")
            if match := re.search(r"/\d+-([a-z]+-\d+)(\.\d+)?\.log$", log):
                found[match[1]] = process.pid
    return found
