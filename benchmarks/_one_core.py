"""sparktf's runs whose trainers have one core each, on the models that gradients are measured with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from _lake import Schema, float_columns, write_lake
from _report import Figure, figure
from _submit import submit_config


class Sized(NamedTuple):
    """A model, with the rows that it trains.

    Attributes:
        batch_size: Rows of an update of two workers.
    """

    name: str
    hidden: list[int]
    schema: Schema
    batch_size: int


SMALL = Sized("16-64-1", [64], float_columns(5_000_000, 125_000), 2_048)
LARGE = Sized("16-2048-2048-1", [2_048, 2_048], float_columns(131_072, 8_192), 512)
"""With 17 MB of gradients."""

GOALS = {SMALL.name: ">= 0.9", LARGE.name: ">= 1.6"}
"""Of two workers' rows per second over one worker's."""


class Trained(NamedTuple):
    """One training.

    Attributes:
        rows_s: Rows per second after the first call, or update.
        rows_cpu_s: Rows per second of the workers' processor time, after that.
        first_s: From the run's start to the end of that.
        seconds: The whole run, without the start and end of Spark or Ray.
        submitted_s: The whole command, with these.
    """

    rows_s: float
    rows_cpu_s: float
    first_s: float
    seconds: float
    submitted_s: float


def trained(folder: Path, work: Path, model: Sized, *, workers: int) -> Trained:
    """Submits a run of one epoch; each worker has a core, and as many rows of an update as one of two has."""
    work.mkdir(parents=True)
    batch_size = model.batch_size * workers // 2
    config = {
        "name": "bench",
        "model": "_mlp:build",
        "params": {"times": str(work), "hidden": model.hidden, "one_core": True},
        "data": {"path": str(folder), "inputs": {"x": ["x*"]}, "targets": {"y": "y"}},
        "cluster": {"workers": workers},
        "train": {"batch_size": batch_size},
        "output": {"path": str(work / "runs")},
    }
    run = submit_config(config, work, slots=workers)
    if run.result["rows_trained"] != model.schema.rows:
        raise SystemExit(f"{run.result['rows_trained']} of {model.schema.rows} rows were trained")
    first, last = max(calls[0] for calls in run.trainers), max(calls[-1] for calls in run.trainers)
    rows = model.schema.rows - first.step * batch_size
    return Trained(
        rows_s=rows / (last.time_s - first.time_s),
        rows_cpu_s=rows / sum(calls[-1].cpu_s - calls[0].cpu_s for calls in run.trainers),
        first_s=first.time_s - run.began_s,
        seconds=run.seconds,
        submitted_s=run.submitted_s,
    )


def scaling(root: Path, runs: int, models: Sequence[Sized] = (SMALL, LARGE)) -> list[Figure]:
    """Measures two workers of one core each beside one worker on one core with half the rows an update, by turns."""
    figures: list[Figure] = []
    for model in models:
        folder = write_lake(root / model.name, model.schema)
        found: dict[int, list[Trained]] = {1: [], 2: []}
        for run in range(runs):
            for workers, times in found.items():
                times.append(trained(folder, root / f"{model.name}-{run}-{workers}", model, workers=workers))
                print(f"{model.name}, {workers} workers: {times[-1]}", file=sys.stderr, flush=True)
        pairs = list(zip(found[1], found[2], strict=True))
        title = f"{model.name}, one core each"
        figures += [
            figure(f"{title}: one worker", [t.rows_s / 1e3 for t in found[1]], unit="k rows/s"),
            figure(f"{title}: two workers", [t.rows_s / 1e3 for t in found[2]], unit="k rows/s"),
            figure(
                f"{title}: two workers / one with half the rows an update",
                [two.rows_s / one.rows_s for one, two in pairs],
                unit="ratio",
                goal=GOALS[model.name],
            ),
            figure(
                f"{title}: the same, rows by processor time",
                [two.rows_cpu_s / one.rows_cpu_s for one, two in pairs],
                unit="ratio",
            ),
        ]
    return figures
