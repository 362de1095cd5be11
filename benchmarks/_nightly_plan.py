"""`sparktf plan` of a million row groups: the command, on real footers; and what it says once it knows their hosts.

In processor time, as in scale.py: of the whole process and all of its threads, whatever else the machine has to do.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from _report import Figure, figure
from scale import GROUPS, NODES, bench_config, host, located, plan_of

from sparktf.commands.cli import main
from sparktf.preview.expectation import data_of, dealt_to, expected_locality, updates_of, wanted_hosts
from sparktf.preview.forecast import Forecast
from sparktf.sequence import Stream

FILES, FILE_GROUPS, GROUP_ROWS, COLUMNS = 10_000, 100, 8, 8
DAYS = 100
COMMAND = "sparktf plan of 1,000,000 row groups in 10,000 files on this machine"
HOSTS = "what it says of 1,000,000 row groups in 100,000 files on 1,000 hosts, listed"


def figures(runs: int) -> list[Figure]:
    """Returns the figures of so many runs, each in a process of its own."""
    goal = "<= 20"
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as folder:
        write_lake(Path(folder))
        return [
            figure(COMMAND, [measured(the_command, folder) for _ in range(runs)], unit="s", goal=goal),
            figure(HOSTS, [measured(with_hosts, folder) for _ in range(runs)], unit="s", goal=goal),
        ]


def write_lake(folder: Path) -> None:
    """Writes a lake whose files are one, by many names: planning reads the footer of each."""
    rows = FILE_GROUPS * GROUP_ROWS
    columns = {f"x{i}": np.arange(rows, dtype=np.float32) for i in range(COLUMNS)}
    file = folder / "one.parquet"
    pq.write_table(pa.table({**columns, "y": np.zeros(rows, np.float32)}), file, row_group_size=GROUP_ROWS)
    for day in range(DAYS):
        partition = folder / f"lake/day={day}"
        partition.mkdir(parents=True)
        for part in range(FILES // DAYS):
            os.link(file, partition / f"part-{part:05d}.parquet")
    (folder / "model.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    config = {
        "name": "bench",
        "model": "model:build",
        "data": {
            "path": str(folder / "lake"),
            "inputs": {"x": [f"x{i}" for i in range(COLUMNS)]},
            "targets": {"y": "y"},
            "checks": {"refuse": {"rows": [1, 1e12]}},
        },
        "output": {"path": str(folder / "runs")},
    }
    (folder / "bench.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def the_command(folder: str) -> float:
    """Returns the seconds of the command, but for Python's start and what this module imports."""
    said, start_s = io.StringIO(), time.process_time()
    with redirect_stdout(said):
        code = main(["plan", f"{folder}/bench.yaml", "--date", "2026-11-20", "--master", "local[2]", "--json"])
    took_s = time.process_time() - start_s
    planned = Forecast.model_validate_json(said.getvalue())
    if code or planned.data.streams[0].row_groups != GROUPS:
        raise SystemExit(f"exit code {code}: {said.getvalue()[:1000]}")
    return took_s


def with_hosts(folder: str) -> float:
    """Returns the seconds from listed blocks and read footers to all that is said of them."""
    config = bench_config(folder)
    files, blocks = located()
    start_s = time.process_time()
    plan = plan_of(config, files, blocks)
    hosts = wanted_hosts(config, plan)
    rows, share = dealt_to(config, plan, hosts)
    updates_of(config, plan.rows(Stream.TRAIN), rows)
    found = expected_locality(hosts, share, plan, lambda name: 1)
    data_of(plan, "now")
    took_s = time.process_time() - start_s
    if share is None or share < 0.9 or {asked.host for asked in found.asked} != {host(i) for i in range(NODES)}:
        raise SystemExit(f"{share} of the bytes are local, on {len(found.asked)} hosts")
    return took_s


def measured(call: Callable[[str], float], folder: str) -> float:
    """Returns what a fresh process finds."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(call, folder).result()


if __name__ == "__main__":
    for found in figures(int(os.environ.get("RUNS", "1"))):
        print(found, file=sys.stdout)
