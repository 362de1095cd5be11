"""A synthetic click log: dense features, a label that follows from them, and files small enough to lie in one block."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from minihadoop import MiniHadoop

FILES = 40
GROUPS_PER_FILE = 3
ROWS_PER_GROUP = 16_800
ROWS = FILES * GROUPS_PER_FILE * ROWS_PER_GROUP
FEATURES = 8


def put_clicks(hadoop: MiniHadoop, folder: str, *, files: int = FILES) -> None:
    """Writes the log to HDFS; every file has its replicas on hosts of its own choice."""
    for number in range(files):
        hadoop.hdfs.put(f"{folder}/part-{number:05d}.parquet", click_file(number))


def click_file(number: int) -> bytes:
    """Returns one file of three row groups."""
    rng = np.random.default_rng(number)
    rows = GROUPS_PER_FILE * ROWS_PER_GROUP
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    clicked = x @ np.linspace(-1, 1, FEATURES, dtype=np.float32) + 0.2 * rng.normal(size=rows) > 0
    columns: dict[str, Any] = {f"x{i}": x[:, i] for i in range(FEATURES)}
    table = pa.table({"row": np.arange(rows) + number * rows, **columns, "clicked": clicked.astype(np.float32)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=ROWS_PER_GROUP, compression="none", use_dictionary=False)
    return sink.getvalue()


def click_job(path: str, runs: str, **sections: Any) -> dict[str, Any]:
    """Returns the configuration of a job over the log; `sections` are merged into it."""
    job: dict[str, Any] = {
        "name": "clicks",
        "model": "click_model:build",
        "data": {
            "path": path,
            "inputs": {"x": [f"x{i}" for i in range(FEATURES)]},
            "targets": {"clicked": "clicked"},
            "shuffle_rows": 60_000,
        },
        "cluster": {"workers": 3},
        "train": {"epochs": 1, "batch_size": 49_152},
        "output": {"path": runs, "progress_seconds": 1},
    }
    for name, section in sections.items():
        job[name] = {**job.get(name, {}), **section} if isinstance(section, dict) else section
    return job
