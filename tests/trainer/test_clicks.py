"""The example `models.clicks` learns what its click log has in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from trainer.local_gang import LocalGang

import sparktf

JOBS = Path(sparktf.__file__).parents[1] / "jobs"
PRIOR_ROWS = 10

Array = npt.NDArray[np.float64]


def columns(folder: Path) -> dict[str, Array]:
    """Returns the rows of a folder."""
    table = pq.read_table(folder, partitioning=None)
    return {name: table[name].to_numpy() for name in table.column_names}


def score_by_rates(log: dict[str, Array], shown: dict[str, Array]) -> Array:
    """Returns how likely clicks are by the click rates of the user and of the item alone."""
    mean = log["clicked"].mean()
    score = np.zeros(len(shown["user"]))
    for key in ("user", "item"):
        clicks, rows = (np.bincount(log[key], weights) for weights in (log["clicked"], None))
        rate = (clicks + PRIOR_ROWS * mean) / (rows + PRIOR_ROWS)
        score += np.log(rate / (1 - rate))[shown[key].astype(int)]
    return score


def auc(clicked: Array, score: Array) -> float:
    """Returns how often a clicked row scores higher than one that is not."""
    ranks = np.empty(len(score))
    ranks[np.argsort(score)] = np.arange(len(score))
    positive = int(clicked.sum())
    return float((ranks[clicked == 1].sum() - positive * (positive - 1) / 2) / (positive * (len(score) - positive)))


def test_the_click_model_beats_the_click_rates_of_users_and_items(tmp_path: Path, gang: LocalGang) -> None:
    lake = tmp_path / "clicks"
    subprocess.run([sys.executable, str(JOBS / "clicks_lake.py"), str(lake)], check=True)
    log, next_day = columns(lake / "log"), columns(lake / "next_day")
    baseline = auc(next_day["clicked"], score_by_rates(log, next_day))
    assert 0.6 < baseline < 0.65

    changed = {
        "model": "jobs.models.clicks:build",
        "data.path": lake / "log",
        "data.validation.path": lake / "next_day",
        "output.path": tmp_path / "runs",
        "train.epochs": 2,
        "cluster.workers": 1,  # several make the same updates: test_sharded_embedding.py
    }
    config = sparktf.load_config(JOBS / "conf/clicks.yaml", [f"{key}={value}" for key, value in changed.items()])
    result = gang.train(config)
    assert result.rows[0].trained == len(log["user"])
    assert result.metrics["validation"]["auc"] > baseline + 0.05
