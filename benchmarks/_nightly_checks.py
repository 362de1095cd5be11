"""What `data.checks` costs beside one epoch over the same rows, by runs as users start them: `make bench-nightly`.

Two models on two workers: wide and deep on a click log, as jobs/conf/clicks.yaml has it but for the number of rows, and
bench-training's, of one hidden layer, which learns as fast as rows come. The time of the checks is all that the run
spends on them: Spark's tasks start Python for them; that of an epoch is what the trainers take for as many rows after
their first call into TensorFlow.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _lake import Schema, float_columns, write_lake
from _report import Figure, figure
from _submit import submit_config

JOBS = Path(__file__).parents[1] / "jobs"
WORKERS = 2
CLICKS_ROWS, FILES, GROUP_ROWS = 4_000_000, 8, 125_000
USERS, ITEMS = 2_000, 400
DENSE = float_columns(5_000_000, 125_000)


class Times(NamedTuple):
    """Seconds of one run: of the checks, and of an epoch."""

    checks_s: float
    epoch_s: float

    @property
    def share(self) -> float:
        return self.checks_s / self.epoch_s


def figures(runs: int) -> list[Figure]:
    """Returns the figures."""
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        log, lake = _write_clicks(Path(root) / "clicks"), write_lake(Path(root) / "dense", DENSE)
        found: dict[str, list[Times]] = {"clicks": [], "clicks, through Spark": [], "one hidden layer": []}
        for _ in range(runs):
            found["clicks"].append(_clicks(log, _work(root)))
            found["clicks, through Spark"].append(_clicks(log, _work(root), mode="spark"))
            found["one hidden layer"].append(_dense(lake, DENSE, _work(root)))
            print({name: times[-1] for name, times in found.items()}, file=sys.stderr, flush=True)
    shown = []
    for name, times in found.items():
        shown += [
            figure(f"checks: {name}: statistics", [t.checks_s for t in times], unit="s"),
            figure(f"checks: {name}: an epoch", [t.epoch_s for t in times], unit="s"),
            figure(
                f"checks / an epoch over the same rows, {name}",
                [t.share for t in times],
                unit="ratio",
                goal="<= 0.1" if name == "clicks" else "",
            ),
        ]
    return shown


def _clicks(log: Path, work: Path, **data: Any) -> Times:
    config = {
        "model": "_nightly_models:build",
        "params": {
            "jobs": str(JOBS),
            "users": USERS,
            "items": ITEMS,
            "shards": 4,
            "width": 4,
            "hidden": [32],
            "learning_rate": 0.005,
        },
        "data": {
            "path": str(log),
            "inputs": {"user": "user", "item": "item", "hour": "hour"},
            "targets": {"clicked": "clicked"},
            **data,
        },
        "train": {"epochs": 1, "batch_size": 512},
    }
    return _run(config, work, CLICKS_ROWS, slots=WORKERS + bool(data))


def _dense(lake: Path, schema: Schema, work: Path) -> Times:
    config = {
        "model": "_mlp:build",
        "params": {},
        "data": {"path": str(lake), "inputs": schema.inputs, "targets": {"y": "y"}},
        "train": {"epochs": 1, "batch_size": 2_048},
    }
    return _run(config, work, schema.rows, slots=WORKERS)


def _run(config: dict[str, Any], work: Path, rows: int, *, slots: int) -> Times:
    config["name"] = "bench"
    config["params"]["times"] = str(work)
    config["data"]["checks"] = {}
    config["cluster"] = {"workers": WORKERS}
    config["output"] = {"path": str(work / "runs")}
    run = submit_config(config, work, slots=slots)
    if run.result["rows_trained"] != rows:
        raise SystemExit(f"{run.result['rows_trained']} of {rows} rows were trained")
    first = max(calls[0].time_s for calls in run.trainers)
    last = max(calls[-1].time_s for calls in run.trainers)
    steps = max(calls[-1].step for calls in run.trainers)
    timed = 1 - max(calls[0].step for calls in run.trainers) / steps
    return Times(run.result["seconds"]["check"], (last - first) / timed)


def _work(root: str) -> Path:
    return Path(tempfile.mkdtemp(dir=root))


def _write_clicks(folder: Path) -> Path:
    """Writes a click log of which few users and items have most rows, as jobs/clicks_lake.py does."""
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for i in range(FILES):
        rows = CLICKS_ROWS // FILES
        columns = {
            "user": draw.choice(USERS, rows, p=_often(USERS)),
            "item": draw.choice(ITEMS, rows, p=_often(ITEMS)),
            "hour": draw.integers(0, 24, rows, dtype=np.int32),
            "clicked": (draw.random(rows) < 0.3).astype(np.int32),
        }
        pq.write_table(pa.table(columns), folder / f"part-{i}.parquet", row_group_size=GROUP_ROWS)
    return folder


def _often(count: int) -> Any:
    often = 1 / (np.arange(count) + 0.02 * count)
    return often / often.sum()
