"""Small Parquet lakes with the columns that the models of `zoo` take, and configurations that read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.config.job import JobConfig

ITEMS = 20
WORDS = 11
CLASSES = 3
NUMBERS = tuple(f"x{i}" for i in range(4))
EVERYTHING: dict[str, Any] = {
    "inputs": {"row": "row", "item": "item", "numbers": NUMBERS},
    "targets": {"price": "price", "label": "label"},
    "sample_weight": {"price": "price_weight", "label": "weight"},
}
"""What `zoo.everything` is fed with."""
RICH: dict[str, Any] = {**EVERYTHING, "inputs": {**EVERYTHING["inputs"], "colour": "colour"}}
"""What it is fed with if it is rich."""
METERED: dict[str, Any] = {
    "inputs": {"numbers": NUMBERS},
    "targets": {"label": "label", "click": "click"},
    "sample_weight": {"label": "weight", "click": "price_weight"},
}
NUMBERS_TO_LABEL: dict[str, Any] = {"inputs": {"numbers": NUMBERS}, "targets": {"label": "label"}}

COLOURS = ("red", "green", "blue", "grey")


def rows(count: int, seed: int = 0) -> pa.Table:
    """Returns a table of rows that differ in every number; `row` counts them, `item` repeats within any batch."""
    draw = np.random.default_rng(seed)
    columns: dict[str, Any] = {name: draw.normal(size=count).astype(np.float32) for name in NUMBERS}
    return pa.table(
        {
            "row": np.arange(count),
            "item": draw.integers(0, ITEMS, count),
            "colour": draw.choice(COLOURS, count),
            **columns,
            "price": draw.normal(size=count).astype(np.float32),
            "label": draw.integers(0, CLASSES, count),
            "click": draw.integers(0, 2, count),
            "weight": draw.uniform(0.0, 2.0, count).astype(np.float32),
            "price_weight": draw.uniform(0.0, 2.0, count).astype(np.float32),
        }
    )


def write(folder: Path, sizes: Sequence[int], seed: int = 0) -> pa.Table:
    """Writes files of so many rows, one row group each; returns all of the rows, in the order of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    table = rows(sum(sizes), seed)
    start = 0
    for i, size in enumerate(sizes):
        pq.write_table(table.slice(start, size), folder / f"part-{i:03d}.parquet", row_group_size=max(size, 1))
        start += size
    return table


def job(folder: Path, model: str, *, workers: int = 1, name: str = "job", **sections: Any) -> JobConfig:
    """Returns the configuration of a run on the lake in `folder/lake`, writing to `folder/runs`.

    Args:
        model: A function of `zoo`.
        sections: As in the YAML file; `data` and `cluster` are added to what is the same for all.
    """
    cluster = {"strategy": "multi_worker_mirrored" if workers > 1 else "single", "workers": workers}
    return JobConfig.model_validate(
        {
            "name": name,
            "model": f"trainer.zoo:{model}",
            "output": {"path": str(folder / "runs")},
            "timeouts": {"reserve": 60, "start": 120, "stop": 2, "driver_lost": 20},
            **sections,
            "data": {"path": str(folder / "lake"), **sections["data"]},
            "cluster": {**cluster, **sections.get("cluster", {})},
        }
    )
