"""Memory of a trainer while many rows pass through it: `make bench-memory`.

A run of two workers, started by spark-submit; resident memory of the trainers' processes at each tenth of the rows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from _lake import float_columns, write_lake
from _report import figure, report
from _submit import submit

SCHEMA = float_columns(5_000_000, 125_000)
EPOCHS, WORKERS, BATCH = 10, 2, 2_048
TENTHS = 10


def main() -> None:
    """Measures and reports."""
    epochs = int(os.environ.get("EPOCHS", EPOCHS))
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        folder = write_lake(Path(root) / "lake", SCHEMA)
        run = submit(folder, Path(root), SCHEMA, workers=WORKERS, batch_size=BATCH, epochs=epochs)
    steps = run.trainers[0][-1].step
    at = [
        [next(call.resident for call in calls if call.step >= steps * i // TENTHS) for calls in run.trainers]
        for i in range(1, TENTHS + 1)
    ]
    rows = epochs * SCHEMA.rows / 1e6
    figures = [
        figure(f"resident memory after {rows * (i + 1) / TENTHS:.0f} M rows", [r / 2**20 for r in resident], unit="MiB")
        for i, resident in enumerate(at)
    ]
    growth = [last / first for first, last in zip(at[0], at[-1], strict=True)]
    most = [max(trainer) / first for first, trainer in zip(at[0], zip(*at, strict=True), strict=True)]
    figures.append(figure("at the end / after the first tenth", growth, unit="ratio", goal="<= 1.1"))
    figures.append(figure("at most / after the first tenth", most, unit="ratio", goal="<= 1.1"))
    report("memory", figures)


if __name__ == "__main__":
    main()
