"""The direct Parquet feed beside pyarrow reading the same row groups to nowhere: `make bench-parquet`.

In one run, alternating, each in processes of its own. "One core": all threads of a process are bound to one core, so
that the feed gets no more of the machine than pyarrow's one thread. "All cores": pyarrow decodes on all its threads,
and the feed's threads run where they like.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from _lake import Schema, float_columns, int_list, lake_config, write_lake
from _report import Figure, figure, report

from sparktf.driver.plan.planner import plan_source
from sparktf.feature import Feature
from sparktf.feed.arrays.memory import SpareMemory
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

SCHEMAS = (
    float_columns(4_000_000),
    # Spark gives up a dictionary that does not make a column smaller, so a column of measurements has none.
    float_columns(4_000_000, use_dictionary=False),
    int_list(160_000),
)
NAMES = ("17 float32", "17 float32 without dictionary", "784 ints")
BATCH, RUNS = 8_192, 5
BATCHES = (64, 256, 1024, 2048, 8192)


_memory: dict[tuple[Feature, ...], SpareMemory] = {}
"""It stays with a process from pass to pass, as with a trainer from epoch to epoch."""


class Pass(NamedTuple):
    """One pass over a table, or over a node's share of it.

    Attributes:
        start: When its first row was asked for, on the machine's clock.
        stop: When the last one had come.
        cpu_s: Processor time of all threads.
    """

    start: float
    stop: float
    cpu_s: float
    rows: int


def read_to_nowhere(folder: Path, *, threads: bool, mapped: bool = True) -> Pass:
    """Reads all row groups with pyarrow; `mapped` is its fastest way, not its default."""
    rows, start, cpu = 0, time.monotonic(), time.process_time()
    for path in sorted(folder.glob("*.parquet")):
        file = pq.ParquetFile(path, memory_map=mapped)
        for group in range(file.num_row_groups):
            rows += file.read_row_group(group, use_threads=threads).num_rows
    return Pass(start, time.monotonic(), time.process_time() - cpu, rows)


def read_batches(
    folder: Path, schema: Schema, *, shuffle: bool, batch: int = BATCH, node: int = 0, nodes: int = 1
) -> Pass:
    """Takes a node's share of the table from the feed, in batches."""
    plan = plan_source(lake_config(folder, schema, shuffle=shuffle), open_storage, lambda *_: [])
    shares = plan.assignments(Stream.TRAIN, 0, [(0, schema.rows)], [""] * nodes, rebalance=True)
    memory = _memory.setdefault(plan.spec.features, SpareMemory(plan.spec.features))
    rows, start, cpu = 0, time.monotonic(), time.process_time()
    with NodeFeed(plan.spec, PlannedParts(plan.spec, shares[node], open_storage), memory) as feed:
        while n := len(feed.next_rows(batch)["target:y"]):
            rows += n
    return Pass(start, time.monotonic(), time.process_time() - cpu, rows)


class Machine:
    """The processes that are measured: they stay, so that none measures its imports."""

    def __init__(self, one_core: ProcessPoolExecutor, nodes: list[ProcessPoolExecutor]) -> None:
        self._one_core = one_core
        self._nodes = nodes

    def on_one_core(self, call: Callable[[], Pass]) -> Pass:
        """Returns what a process that is bound to one core needs."""
        return self._one_core.submit(call).result()

    def free(self, *calls: Callable[[], Pass]) -> Pass:
        """Returns what one process for each call need together."""
        started = [process.submit(call) for process, call in zip(self._nodes, calls, strict=False)]
        starts, stops, cpu_s, rows = zip(*(future.result() for future in started), strict=True)
        return Pass(min(starts), max(stops), sum(cpu_s), sum(rows))


@contextmanager
def machine() -> Iterator[Machine]:
    """Starts the processes and ends them."""
    spawn = get_context("spawn")
    last_core = max(os.sched_getaffinity(0))
    with (
        ProcessPoolExecutor(1, spawn, os.sched_setaffinity, (0, {last_core})) as one_core,
        ProcessPoolExecutor(1, spawn) as first,
        ProcessPoolExecutor(1, spawn) as second,
    ):
        yield Machine(one_core, [first, second])


def rate(one: Pass) -> float:
    """Returns the rows per second of one pass."""
    return one.rows / (one.stop - one.start)


def rate_by_cpu(one: Pass) -> float:
    """Returns the rows for each second of processor time."""
    return one.rows / one.cpu_s


def ratios(passes: list[Pass], limits: list[Pass]) -> list[float]:
    """Returns the rate of each pass over that of the limit beside it."""
    return [rate(one) / rate(limit) for one, limit in zip(passes, limits, strict=True)]


def against_pyarrow(machine: Machine, folder: Path, schema: Schema, name: str, runs: int) -> list[Figure]:
    """Measures the feed beside pyarrow."""
    limits, unmapped, plain, shuffled, limits_free, shuffled_free = [], [], [], [], [], []
    for run in range(runs + 1):
        limit = machine.on_one_core(partial(read_to_nowhere, folder, threads=False))
        default = machine.on_one_core(partial(read_to_nowhere, folder, threads=False, mapped=False))
        in_order = machine.on_one_core(partial(read_batches, folder, schema, shuffle=False))
        permuted = machine.on_one_core(partial(read_batches, folder, schema, shuffle=True))
        limit_free = machine.free(partial(read_to_nowhere, folder, threads=True))
        free = machine.free(partial(read_batches, folder, schema, shuffle=True))
        if in_order.rows != schema.rows or permuted.rows != schema.rows:
            raise SystemExit(f"{in_order.rows} and {permuted.rows} of {schema.rows} rows came")
        if run:  # the first warms the page cache, and each process's memory
            limits.append(limit)
            unmapped.append(default)
            plain.append(in_order)
            shuffled.append(permuted)
            limits_free.append(limit_free)
            shuffled_free.append(free)

    return [
        figure(f"{name}: pyarrow to nowhere, one core", [rate(p) / 1e6 for p in limits], unit="M rows/s"),
        figure(f"{name}: feed in order / pyarrow, one core", ratios(plain, limits), unit="ratio", goal=">= 0.65"),
        figure(f"{name}: feed shuffled / pyarrow, one core", ratios(shuffled, limits), unit="ratio", goal=">= 0.5"),
        figure(f"{name}: pyarrow reading without a map, one core", [rate(p) / 1e6 for p in unmapped], unit="M rows/s"),
        figure(f"{name}: feed in order / pyarrow without a map, one core", ratios(plain, unmapped), unit="ratio"),
        figure(f"{name}: feed shuffled / pyarrow without a map, one core", ratios(shuffled, unmapped), unit="ratio"),
        figure(f"{name}: pyarrow to nowhere, all cores", [rate(p) / 1e6 for p in limits_free], unit="M rows/s"),
        figure(f"{name}: feed shuffled / pyarrow, all cores", ratios(shuffled_free, limits_free), unit="ratio"),
    ]


def by_batch_size(machine: Machine, folder: Path, schema: Schema, name: str, runs: int) -> list[Figure]:
    """Measures the shuffled feed with several sizes of batches, in one node and in two."""
    found: dict[tuple[int, int], list[Pass]] = {}
    for _ in range(runs):
        for batch in BATCHES:
            for nodes in (1, 2):
                take = partial(read_batches, folder, schema, shuffle=True, batch=batch, nodes=nodes)
                one = machine.free(*(partial(take, node=node) for node in range(nodes)))
                found.setdefault((nodes, batch), []).append(one)
    figures = []
    for (nodes, batch), passes in sorted(found.items()):
        what = f"{name}: {nodes} node{'s' * (nodes > 1)}, batches of {batch:,}"
        figures.append(figure(what, [rate(p) / 1e6 for p in passes], unit="M rows/s"))
        figures.append(figure(f"{what}, of processor time", [rate_by_cpu(p) / 1e6 for p in passes], unit="M rows/s"))
    return figures


def main() -> None:
    """Measures and reports."""
    runs = int(os.environ.get("RUNS", RUNS))
    figures = []
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root, machine() as processes:
        for name, schema in zip(NAMES, SCHEMAS, strict=True):
            folder = write_lake(Path(root) / name.replace(" ", "-"), schema)
            figures += against_pyarrow(processes, folder, schema, name, runs)
            if schema.name == name:
                figures += by_batch_size(processes, folder, schema, name, runs)
    report("parquet", figures)


if __name__ == "__main__":
    main()
