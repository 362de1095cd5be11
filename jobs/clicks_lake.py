"""Writes a small Parquet lake of a made-up click log: who was shown what, when, and whether it was clicked.

    python jobs/clicks_lake.py lake/clicks

Few users and items have most of the rows. Whether a row is clicked depends on the user, on the item, on how well both
fit, and on the hour. `log/` is what models train on, partitioned by day, and `next_day/` what they are judged by.
It is the same on every machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

USERS = 2_000
ITEMS = 400
DAYS = tuple(f"2026-11-{day}" for day in range(14, 21))
ROWS_PER_DAY = 40_000
ROW_GROUP_ROWS = 10_000
TASTES = 3

Array = npt.NDArray[Any]


def days() -> dict[str, pa.Table]:
    """Returns the rows of each day, the last of which is the next one: user, item int64; hour, clicked int32."""
    draw = np.random.default_rng(0)
    users, items = _crowd(draw, USERS), _crowd(draw, ITEMS)
    return {day: _day(draw, users, items) for day in DAYS}


def _crowd(draw: np.random.Generator, count: int) -> dict[str, Array]:
    """Returns the frequency, the click rate and the tastes of each of a number of users or items."""
    often = 1 / (np.arange(count) + 0.02 * count)
    return {
        "often": draw.permutation(often / often.sum()),
        "bias": draw.normal(0, 0.5, count),
        "taste": draw.normal(0, 1.5 / TASTES**0.5, (count, TASTES)),
        "peak": draw.uniform(0, 24, count),
    }


def _day(draw: np.random.Generator, users: dict[str, Array], items: dict[str, Array]) -> pa.Table:
    user = draw.choice(USERS, ROWS_PER_DAY, p=users["often"])
    item = draw.choice(ITEMS, ROWS_PER_DAY, p=items["often"])
    hour = draw.integers(0, 24, ROWS_PER_DAY)
    fit = (users["taste"][user] * items["taste"][item]).sum(axis=1)
    by_hour = np.cos((hour - items["peak"][item]) * np.pi / 12)
    logit = -1.0 + users["bias"][user] + items["bias"][item] + 1.5 * fit + 0.5 * by_hour
    clicked = draw.random(ROWS_PER_DAY) < 1 / (1 + np.exp(-logit))
    return pa.table({"user": user, "item": item, "hour": hour.astype(np.int32), "clicked": clicked.astype(np.int32)})


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
        for day, rows in days().items():
            path = staged / ("next_day" if day == DAYS[-1] else f"log/date={day}") / "part-00000.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(rows, path, row_group_size=ROW_GROUP_ROWS)
        try:
            os.rename(staged, target)
        except OSError:
            if target.exists():  # another process was first
                return False
            raise
    return True


def main() -> None:
    """Writes the lake that the command line names."""
    parser = argparse.ArgumentParser(description="Write a made-up click log as a Parquet lake.")
    parser.add_argument("folder", type=Path, help="where the lake shall be, e.g. lake/clicks")
    folder = parser.parse_args().folder
    said = (
        f"{len(DAYS) * ROWS_PER_DAY:,} rows in {len(DAYS)} days written" if write_lake(folder) else "is there already"
    )
    print(f"{folder}: {said}")


if __name__ == "__main__":
    main()
