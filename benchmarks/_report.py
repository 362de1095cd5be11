"""How a benchmark reports: a table for people, and benchmarks/out/<name>.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: the median of `n` runs; goal like ">= 0.65", "" for one that is only printed."""

    figure: str
    value: float
    goal: str
    unit: str
    n: int
    min: float
    max: float


def figure(name: str, values: Iterable[float], *, unit: str, goal: str = "") -> Figure:
    """Returns the figure of several runs."""
    runs = [float(value) for value in values]
    return Figure(name, statistics.median(runs), goal, unit, len(runs), min(runs), max(runs))


def report(name: str, figures: Sequence[Figure]) -> None:
    """Prints the table and writes the JSON file."""
    table = Table(title=name, title_justify="left")
    for column in ("figure", "median", "min", "max", "goal", "unit", "n"):
        table.add_column(column, justify="left" if column in ("figure", "goal", "unit") else "right")
    for f in figures:
        table.add_row(f.figure, f"{f.value:,.2f}", f"{f.min:,.2f}", f"{f.max:,.2f}", f.goal, f.unit, str(f.n))
    Console().print(table)
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps([asdict(f) for f in figures], indent=1))
