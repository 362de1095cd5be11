"""Memory while many rows pass: `make bench-memory`.

Runs of two workers, started by spark-submit, that read the files themselves and that Spark feeds: resident memory of
the trainers' processes, and of Spark's Python workers, at each tenth of the rows.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from _lake import float_columns, write_lake
from _report import Figure, figure, report
from _submit import submit
from _watch import Sampler

SCHEMA = float_columns(5_000_000, 125_000)
EPOCHS, WORKERS, BATCH = 10, 2, 2_048
TENTHS = 10
_INTERVAL_S = 0.5


class Workers(Sampler[int]):
    """Resident bytes of the largest of Spark's Python workers."""

    def __init__(self) -> None:
        super().__init__(_largest, _INTERVAL_S)

    def resident(self, start: float, stop: float) -> int:
        """Returns the bytes of the largest worker between two times of the clock."""
        return max(nbytes for time_s, nbytes in self.samples if start - _INTERVAL_S <= time_s <= stop)


def _largest() -> int:
    largest = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "pyspark.daemon" in process.cmdline():
                largest = max(largest, process.memory_info().rss)
    return largest


def flat(name: str, tenths: list[list[float]]) -> list[Figure]:
    """Returns the figures of processes at each tenth of the rows, [tenth][process] in bytes."""
    rows = EPOCHS * SCHEMA.rows / 1e6
    growth = [last / first for first, last in zip(tenths[0], tenths[-1], strict=True)]
    most = [max(process) / process[0] for process in zip(*tenths, strict=True)]
    return [
        figure(f"{name}: after {rows / TENTHS:.0f} M rows", [r / 2**20 for r in tenths[0]], unit="MiB"),
        figure(f"{name}: after {rows / 2:.0f} M rows", [r / 2**20 for r in tenths[TENTHS // 2 - 1]], unit="MiB"),
        figure(f"{name}: after {rows:.0f} M rows", [r / 2**20 for r in tenths[-1]], unit="MiB"),
        figure(f"{name}: at the end / after the first tenth", growth, unit="ratio", goal="<= 1.1"),
        figure(f"{name}: at most / after the first tenth", most, unit="ratio", goal="<= 1.1"),
    ]


def measure(name: str, folder: Path, work: Path, **options: Any) -> list[Figure]:
    """Returns the figures of one run."""
    work.mkdir()
    with Workers() as workers:
        run = submit(folder, work, SCHEMA, workers=WORKERS, batch_size=BATCH, epochs=EPOCHS, **options)
    steps = run.trainers[0][-1].step
    tenths = [
        [next(call for call in calls if call.step >= steps * i // TENTHS) for calls in run.trainers]
        for i in range(1, TENTHS + 1)
    ]
    figures = flat(f"trainers, {name}", [[float(call.resident) for call in calls] for calls in tenths])
    if options:
        starts = [min(calls[0].time_s for calls in run.trainers), *(calls[0].time_s for calls in tenths)]
        largest = [[float(workers.resident(start, stop))] for start, stop in pairwise(starts)]
        figures += flat(f"largest feeder, {name}", largest)
    return figures


def main() -> None:
    """Measures and reports."""
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        folder = write_lake(Path(root) / "lake", SCHEMA)
        report(
            "memory",
            [
                *measure("direct feed", folder, Path(root) / "direct"),
                *measure("DataFrame feed", folder, Path(root) / "fed", slots=2, mode="spark", cache="off"),
            ],
        )


if __name__ == "__main__":
    main()
