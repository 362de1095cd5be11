"""Tables that the benchmarks read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.config.job import JobConfig

COLUMNS = 16
PIXELS = 784
FILES = 4


@dataclass(frozen=True, slots=True)
class Schema:
    """One of the tables.

    Attributes:
        rows: Of the whole table, in FILES files.
        options: How the files are written.
        columns: Of the input.
        ids: Its values are whole numbers below this; 0 for floats.
    """

    name: str
    rows: int
    group_rows: int
    inputs: dict[str, Any]
    options: dict[str, Any]
    columns: int = COLUMNS
    ids: int = 0


def float_columns(rows: int, group_rows: int = 131_072, columns: int = COLUMNS, **options: Any) -> Schema:
    """Some float32 columns packed into a vector, and a label."""
    return Schema(f"{columns + 1} float32", rows, group_rows, {"x": ["x*"]}, options, columns)


def id_columns(rows: int, group_rows: int, columns: int, ids: int) -> Schema:
    """Some int64 columns of ids packed into a vector, and a label."""
    return Schema(f"{columns} ids", rows, group_rows, {"x": ["x*"]}, {}, columns, ids)


def int_list(rows: int, group_rows: int = 8_192, **options: Any) -> Schema:
    """A list column of PIXELS values 0 to 255, as smallint, and a label."""
    return Schema(f"{PIXELS} ints", rows, group_rows, {"x": {"columns": "x", "shape": [PIXELS]}}, options)


def write_lake(folder: Path, schema: Schema) -> Path:
    """Writes random rows, compressed with snappy as Spark does, and returns the folder."""
    folder.mkdir(parents=True)
    for i, table in enumerate(tables(schema)):
        pq.write_table(table, folder / f"part-{i}.parquet", row_group_size=schema.group_rows, **schema.options)
    return folder


def tables(schema: Schema) -> Iterator[pa.Table]:
    """Makes the rows of each file."""
    random = np.random.default_rng(0)
    for i in range(FILES):
        n = schema.rows * (i + 1) // FILES - schema.rows * i // FILES
        yield _columns(random, n, schema) if "x*" in schema.inputs["x"] else _lists(random, n)


def _columns(random: np.random.Generator, rows: int, schema: Schema) -> pa.Table:
    names = [f"x{c}" for c in range(schema.columns)]
    if schema.ids:
        ids = {name: random.integers(0, schema.ids, rows) for name in names}
        return pa.table({**ids, "y": (ids["x0"] % 2).astype(np.float32)})
    floats = {name: random.random(rows, dtype=np.float32) for name in names}
    return pa.table({**floats, "y": (floats["x0"] + floats["x1"] > 1).astype(np.float32)})


def _lists(random: np.random.Generator, rows: int) -> pa.Table:
    values = random.integers(0, 256, rows * PIXELS, dtype=np.int16)
    lists = pa.ListArray.from_arrays(np.arange(0, rows * PIXELS + 1, PIXELS, dtype=np.int32), values)
    return pa.table({"x": lists, "y": random.integers(0, 10, rows, dtype=np.int32)})


def lake_config(folder: Path, schema: Schema, *, shuffle: bool = True, **data: Any) -> JobConfig:
    """Returns the configuration of a run that reads a table."""
    return JobConfig.model_validate(
        {
            "name": "bench",
            "model": "none:none",
            "data": {"path": str(folder), "inputs": schema.inputs, "targets": {"y": "y"}, "shuffle": shuffle, **data},
            "output": {"path": str(folder)},
        }
    )
