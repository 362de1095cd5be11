"""Small Parquet lakes for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.config.job import JobConfig
from sparktf.driver.plan.files import RowGroups
from sparktf.driver.plan.locality import FileBlock, Hosts
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import PartitionFilter, StreamRows, plan_source, split_table
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import Columns
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Assignment, Interval, Keep, PartitionValue, Stream
from sparktf.storage.file_systems import open_storage


def write_lake(folder: Path, file_rows: Sequence[int] = (70, 5, 1, 120, 33), *, group_rows: int = 16) -> Path:
    """Writes files with columns id (0, 1, ... over all files), a, b (both from the id) and label."""
    first = 0
    for i, rows in enumerate(file_rows):
        write_file(folder / f"part-{i:02d}.parquet", id_table(first, rows), group_rows=group_rows)
        first += rows
    return folder


def id_table(first: int, rows: int) -> pa.Table:
    """Returns a table whose every value follows from its row's id."""
    ids = np.arange(first, first + rows, dtype=np.int64)
    return pa.table(
        {
            "id": ids,
            "a": (ids * 2).astype(np.float32),
            "b": (ids * 3).astype(np.float32),
            "label": (ids % 7).astype(np.int32),
        }
    )


def write_file(path: Path, table: pa.Table, *, group_rows: int = 1 << 20) -> Path:
    """Writes one Parquet file, making the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group_rows)
    return path


def rewrite(file: Path, content: bytes) -> None:
    """Puts something else into a file, and back its time: as damage does, or someone who hides it."""
    before = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def lake_config(path: Path | None = None, *, seed: int = 0, **data: Any) -> JobConfig:
    """Returns a configuration whose data section is `data` over inputs id and x = (a, b), target label."""
    section = {"path": path and str(path), "inputs": {"id": "id", "x": ["a", "b"]}, "targets": {"y": "label"}, **data}
    return JobConfig.model_validate(
        {"name": "t", "model": "m:build", "output": {"path": "/nowhere"}, "train": {"seed": seed}, "data": section}
    )


def no_filter(
    names: Sequence[str], types: Sequence[str], rows: Sequence[tuple[PartitionValue, ...]], predicate: str
) -> list[bool]:
    """A partition filter for lakes that need none."""
    raise AssertionError(f"no predicate was expected, but {predicate!r} came")


def filter_by(test: Callable[..., bool]) -> PartitionFilter:
    """Returns a partition filter that calls `test(column=value, ...)` and does not look at the predicate."""

    def chosen(
        names: Sequence[str], types: Sequence[str], rows: Sequence[tuple[PartitionValue, ...]], predicate: str
    ) -> list[bool]:
        return [test(**dict(zip(names, row, strict=True))) for row in rows]

    return chosen


def plan_lake(path: Path, partition_filter: PartitionFilter = no_filter, *, seed: int = 0, **data: Any) -> Plan:
    """Plans a lake on the local file system."""
    return plan_source(lake_config(path, seed=seed, **data), open_storage, partition_filter)


def placed(hosts: int, replication: int, groups: int, *, seed: int = 0, block_rows: int = 131_072) -> Plan:
    """Returns a plan of one-MiB row groups of 20,000 rows, ten to a file, each file's block on random hosts."""
    rng = np.random.default_rng(seed)
    index = np.arange(groups, dtype=np.int64)
    file, row_group = index // 10, index % 10
    files = tuple(f"/lake/{i}" for i in range(int(file[-1]) + 1))
    names = [f"n{i}.example.org" for i in range(hosts)]
    located = {
        name: [FileBlock(0, 10 << 20, tuple(names[i] for i in rng.choice(hosts, replication, replace=False)))]
        for name in files
    }
    rows, nbytes = np.full(groups, 20_000), np.full(groups, 1 << 20)
    start = row_group << 20
    stream = StreamRows(
        RowGroups(file, row_group, rows, nbytes, start, start + (1 << 20), rows), Keep.ALL, np.zeros_like(rows)
    )
    where = Hosts(files, located)
    spec = FeedSpec(features=(), shuffle=True, seed=3)
    return Plan(
        spec=spec,
        plan_hash="",
        files=files,
        partition_values=((),) * len(files),
        tables={Stream.TRAIN: split_table(stream, block_rows, where, seed=3)},
        hosts=where.names,
    )


def deal(
    plan: Plan,
    stream: Stream = Stream.TRAIN,
    *,
    epoch: int = 0,
    nodes: int = 1,
    intervals: Sequence[Interval] | None = None,
    rebalance: bool = True,
) -> list[Assignment]:
    """Returns the assignments of an epoch, or of what is left of it."""
    whole = [(0, plan.rows(stream))] if intervals is None else intervals
    return list(plan.assignments(stream, epoch, whole, [""] * nodes, rebalance=rebalance))


def feed_of(plan: Plan, assignment: Assignment) -> NodeFeed:
    """Returns the feed of one assignment."""
    return NodeFeed(plan.spec, PlannedParts(plan.spec, assignment, open_storage))


def batches(plan: Plan, assignment: Assignment, rows: int = 10) -> list[Columns]:
    """Returns all batches of an assignment."""
    found: list[Columns] = []
    with feed_of(plan, assignment) as feed:
        while feed.rows_taken < assignment.rows:
            found.append(feed.next_rows(rows))
    return found


def values(found: Sequence[Columns], key: str) -> npt.NDArray[Any]:
    """Returns one tensor of all batches."""
    return np.concatenate([array(batch, key) for batch in found])


def array(batch: Columns, key: str) -> npt.NDArray[Any]:
    """Returns a numeric tensor of a batch."""
    column = batch[key]
    assert isinstance(column, np.ndarray)
    return column


def ids(plan: Plan, assignments: Sequence[Assignment], rows: int = 10) -> list[int]:
    """Returns the ids of all rows of the assignments, in the order in which they are trained."""
    return [int(i) for assignment in assignments for b in batches(plan, assignment, rows) for i in array(b, "input:id")]
