"""Which rows each update was made of, and by whom, as `zoo.told` has trainers say in their logs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import filter as matching
from pathlib import Path
from typing import NamedTuple

from sparktf.results.result import AttemptResult, RunResult

_UPDATE = re.compile(r"^trained at (\d+) rows \[([\d ]*)\](?: in update \d+)?$", re.MULTILINE)
_NUMBERED = re.compile(r"^trained at \d+ rows \[([\d ]*)\] in update (\d+)$", re.MULTILINE)


class Update(NamedTuple):
    """One that was made.

    Attributes:
        trainer: Whose log says so: "worker-0".
    """

    time_us: int
    trainer: str
    rows: tuple[int, ...]


def logs_in(folder: Path, pattern: str) -> list[Path]:
    """Returns the logs below a folder whose names match, whatever else comes and goes there meanwhile."""
    # Path.rglob raises where a folder is gone before it is listed.
    return [Path(where, name) for where, _, names in os.walk(folder) for name in matching(names, pattern)]


def updates_of_attempt(result: RunResult, attempt: AttemptResult | None = None) -> list[Update]:
    """Returns the updates of an attempt, by default the last one, in the order in which they were made."""
    begin = f"{(attempt or result.attempts[-1]).attempt:03d}-"
    return sorted(
        Update(int(time_us), log.stem.removeprefix(begin), tuple(map(int, rows.split())))
        for log in Path(result.path, "logs").glob(f"{begin}*.log")
        for time_us, rows in _UPDATE.findall(log.read_text())
    )


def has_trained(log: Path) -> bool:
    """Whether a trainer has said in its log that it made an update."""
    return _UPDATE.search(log.read_text()) is not None


def rows_in(log: Path) -> list[tuple[int, ...]]:
    """Returns the rows of each update that a trainer has told of in its log."""
    return [tuple(map(int, rows.split())) for _, rows in _UPDATE.findall(log.read_text())]


def rows_by_epoch(updates: Sequence[Update], rows: int) -> list[list[int]]:
    """Returns the rows of each epoch, sorted: all updates of one are made before those of the next."""
    every = [row for update in updates for row in update.rows]
    return [sorted(every[start : start + rows]) for start in range(0, len(every), rows)]


def updates_by_number(result: RunResult) -> list[list[int]]:
    """Returns the rows of each update that a synchronous gang has made, as `zoo.told` has numbered them.

    An update that was interrupted is left out: its workers made that of the same number again, and the rows of one
    that was lost meanwhile came again in another one.
    """
    told = {
        (int(number), log.stem): [int(row) for row in rows.split()]
        for log in Path(result.path, "logs").glob("*.log")
        for rows, number in _NUMBERED.findall(log.read_text())
    }
    last = {log: number for number, log in sorted(told)}
    again = Counter(row for rows in told.values() for row in rows)
    updates: dict[int, list[int]] = {}
    for (number, log), rows in sorted(told.items()):
        if number < last[log] or all(again[row] == 1 for row in rows):
            updates.setdefault(number, []).extend(rows)
    return [updates[number] for number in sorted(updates)]
