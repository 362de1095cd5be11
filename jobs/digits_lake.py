"""Writes a small Parquet lake of real data: scikit-learn's bundled handwritten digits, 1,797 images of 8 x 8 pixels.

    python jobs/digits_lake.py lake/digits

The lake is made as lakes are: partitioned by a date column, files of very different sizes, some of several row groups.
It is the same on every machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

# Day -> rows of each file.
LAYOUT = {
    "2026-11-15": (400, 40),
    "2026-11-16": (250, 120, 10),
    "2026-11-17": (300,),
    "2026-11-18": (5, 180),
    "2026-11-19": (150, 42),
    "2026-11-20": (220, 80),
}
ROW_GROUP_ROWS = 128
PIXEL_MAX = 16.0


def digits_table() -> pa.Table:
    """Returns all digits in a fixed random order: pixel_0..pixel_63 float32 in [0, 1], label int32, id int64.

    scikit-learn's own order is by writer; in it, the last days would hold handwriting that the first never saw.
    """
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pixels = (digits.data / PIXEL_MAX).astype(np.float32)[order]
    columns = {f"pixel_{i}": pa.array(pixels[:, i]) for i in range(pixels.shape[1])}
    columns["label"] = pa.array(digits.target[order].astype(np.int32))
    columns["id"] = pa.array(order.astype(np.int64))
    return pa.table(columns)


def parts(table: pa.Table) -> Iterator[tuple[Path, pa.Table]]:
    """Yields each file's path below the lake, and its rows; every row is in exactly one file."""
    files = [(day, number, rows) for day, sizes in LAYOUT.items() for number, rows in enumerate(sizes)]
    starts = itertools.accumulate((rows for _, _, rows in files), initial=0)
    for (day, number, rows), start in zip(files, starts, strict=False):
        yield Path(f"date={day}") / f"part-{number:05d}.parquet", table.slice(start, rows)


def write_lake(target: Path) -> bool:
    """Writes the lake, unless there is one; it appears whole or not at all.

    Returns:
        Whether it was written.

    Raises:
        OSError: the target cannot be written.
    """
    if target.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
        staged = Path(folder) / target.name
        for path, rows in parts(digits_table()):
            (staged / path).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, staged / path, row_group_size=ROW_GROUP_ROWS)
        try:
            os.rename(staged, target)
        except OSError:
            if target.exists():  # another process was first
                return False
            raise
    return True


def main() -> None:
    """Writes the lake that the command line names."""
    parser = argparse.ArgumentParser(description="Write scikit-learn's digits as a Parquet lake.")
    parser.add_argument("folder", type=Path, help="where the lake shall be, e.g. lake/digits")
    folder = parser.parse_args().folder
    rows = sum(map(sum, LAYOUT.values()))
    said = f"{rows} digits in {len(LAYOUT)} days written" if write_lake(folder) else "is there already"
    print(f"{folder}: {said}")


if __name__ == "__main__":
    main()
