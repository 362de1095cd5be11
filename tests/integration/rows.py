"""Small lakes, and configurations over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lakes import write_file

LINE = """
import keras

def build(params, assets):
    inputs = {"id": keras.Input((), dtype="int64", name="id"), "x": keras.Input((2,), name="x")}
    model = keras.Model(inputs, keras.layers.Dense(1, name="y")(inputs["x"]))
    model.compile("sgd", "mse")
    return model
"""
"""A module of the user's, for who puts one beside a configuration."""


def write_rows(folder: Path, file_rows: Sequence[int] = (300, 90, 210), *, group_rows: int = 100) -> Path:
    """Writes files with columns id (from 1 on: 0 is what a model is built on), a, b and y, which is 2 a - b + 1."""
    draw = np.random.default_rng(7)
    first = 1
    for i, rows in enumerate(file_rows):
        a, b = draw.normal(size=(2, rows)).astype(np.float32)
        ids = np.arange(first, first + rows, dtype=np.int64)
        table = pa.table({"id": ids, "a": a, "b": b, "y": 2 * a - b + 1})
        write_file(folder / f"part-{i:02d}.parquet", table, group_rows=group_rows)
        first += rows
    return folder


def job(lake: Path | str, runs: Path | str, model: str, **sections: Any) -> dict[str, Any]:
    """Returns a configuration of two workers over such a lake; `sections` are merged into its own."""
    config: dict[str, Any] = {
        "name": "t",
        "model": model,
        "data": {"path": str(lake), "inputs": {"id": "id", "x": ["a", "b"]}, "targets": {"y": "y"}},
        "cluster": {"workers": 2},
        "train": {"batch_size": 32},
        "output": {"path": str(runs), "progress_seconds": 0.5},
        "timeouts": {"reserve": 180, "start": 180, "replace": 120, "driver_lost": 6, "stop": 2},
    }
    for name, section in sections.items():
        merge = isinstance(section, dict) and name in config
        config[name] = {**config[name], **section} if merge else section
    return config
