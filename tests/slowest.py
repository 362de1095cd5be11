"""Prints how long each suite took and which tests of them all were slowest, from the reports that pytest has written.

python tests/slowest.py .pytest_cache/times/unit.xml .pytest_cache/times/cluster.xml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

SHOWN = 20


class Suite(NamedTuple):
    """One run of pytest: when it was, with what it spends outside of tests, and each test's time with its fixtures."""

    name: str
    started_s: float
    seconds: float
    tests: dict[str, float]


def read(report: Path) -> Suite:
    """Returns what a report in JUnit's format says; the suite is called after the file."""
    suite = ElementTree.parse(report).getroot()[0]
    tests = {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 0)) for case in suite}
    started_s = datetime.fromisoformat(suite.attrib["timestamp"]).timestamp()
    return Suite(report.stem, started_s, float(suite.attrib["time"]), tests)


def lines(suites: Sequence[Suite]) -> Iterator[str]:
    """Yields what is printed."""
    tests = [(seconds, name) for suite in suites for name, seconds in suite.tests.items()]
    slowest = sorted(tests, reverse=True)[:SHOWN]
    yield f"the slowest {len(slowest)} of {len(tests):,} tests:"
    for seconds, name in slowest:
        yield f"{seconds:8.1f} s  {name.removeprefix('tests.')}"
    yield "the suites:"
    for suite in suites:
        yield f"{suite.seconds:8.1f} s  {suite.name}, {len(suite.tests):,} tests"
    in_all_s = max(suite.started_s + suite.seconds for suite in suites) - min(suite.started_s for suite in suites)
    yield f"{in_all_s:8.1f} s  from the first to the last, some at once"


def main(reports: Sequence[Path]) -> None:
    """Prints what the reports say that are there: where a suite fails, others are not begun."""
    there = [report for report in reports if report.exists()]
    print(*lines([read(report) for report in there]) if there else ["no suite was run"], sep="\n")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
