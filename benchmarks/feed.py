"""The direct Parquet feed beside pyarrow reading the same row groups to nowhere: `make bench-feed`.

One thread each, in one run, alternating; 16 float32 columns packed into a vector, and a label.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _report import figure, report

from sparktf.config import JobConfig
from sparktf.driver.planner import plan_source
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.plan import Stream
from sparktf.storage import open_storage

ROWS, FILES, GROUP_ROWS, COLUMNS = 4_000_000, 4, 131_072, 16
BATCH, RUNS = 8_192, 5


def write_table(folder: Path) -> None:
    """Writes ROWS rows of random numbers."""
    random = np.random.default_rng(0)
    for i in range(FILES):
        n = ROWS // FILES
        columns = {f"x{c}": random.random(n, dtype=np.float32) for c in range(COLUMNS)}
        table = pa.table({**columns, "y": random.random(n, dtype=np.float32)})
        pq.write_table(table, folder / f"part-{i}.parquet", row_group_size=GROUP_ROWS, compression="none")


def read_to_nowhere(folder: Path) -> float:
    """Returns the rows per second of pyarrow alone."""
    start = time.perf_counter()
    for path in sorted(folder.glob("*.parquet")):
        file = pq.ParquetFile(path, memory_map=True)
        for group in range(file.num_row_groups):
            file.read_row_group(group, use_threads=False)
    return ROWS / (time.perf_counter() - start)


def read_batches(folder: Path, *, shuffle: bool, threads: bool = False) -> float:
    """Returns the rows per second of the feed, in batches of BATCH rows."""
    config = JobConfig.model_validate(
        {
            "name": "bench",
            "model": "none:none",
            "data": {"path": str(folder), "inputs": {"x": ["x*"]}, "targets": {"y": "y"}, "shuffle": shuffle},
            "output": {"path": str(folder)},
        }
    )
    plan = plan_source(config, open_storage, lambda *_: [])
    (assignment,) = plan.assignments(Stream.TRAIN, 0, [(0, ROWS)], [""], rebalance=True)
    rows = 0
    start = time.perf_counter()
    with NodeFeed(plan.spec, PlannedParts(plan.spec, assignment, open_storage, use_threads=threads)) as feed:
        while n := len(feed.take(BATCH)["target:y"]):
            rows += n
    seconds = time.perf_counter() - start
    if rows != ROWS:
        raise SystemExit(f"{rows} of {ROWS} rows came")
    return ROWS / seconds


def main() -> None:
    """Measures and reports."""
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as name:
        folder = Path(name)
        write_table(folder)
        read_to_nowhere(folder)  # warms the page cache
        runs = [
            (
                read_to_nowhere(folder),
                read_batches(folder, shuffle=False),
                read_batches(folder, shuffle=True),
                read_batches(folder, shuffle=True, threads=True),
            )
            for _ in range(RUNS)
        ]
    limit, plain, shuffled, threaded = (np.array(column) for column in zip(*runs, strict=True))
    report(
        "feed",
        [
            figure("pyarrow to nowhere", limit / 1e6, unit="M rows/s"),
            figure("direct feed, in order / pyarrow", plain / limit, unit="ratio", goal=">= 0.65"),
            figure("direct feed, shuffled / pyarrow", shuffled / limit, unit="ratio", goal=">= 0.5"),
            figure("direct feed, shuffled, all threads / pyarrow", threaded / limit, unit="ratio"),
        ],
    )


if __name__ == "__main__":
    main()
