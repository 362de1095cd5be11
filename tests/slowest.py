"""Prints how long each suite took and which tests of them all were slowest, from the reports that pytest has written.

python tests/slowest.py .pytest_cache/times/unit.xml .pytest_cache/times/cluster.xml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

SHOWN = 20


class Suite(NamedTuple):
    """One run of pytest: its own time, with what it spends outside of tests, and each test's with its fixtures."""

    name: str
    seconds: float
    tests: dict[str, float]


def read(report: Path) -> Suite:
    """Returns what a report in JUnit's format says; the suite is called after the file."""
    suite = ElementTree.parse(report).getroot()[0]
    tests = {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 0)) for case in suite}
    return Suite(report.stem, float(suite.get("time", 0)), tests)


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
    yield f"{sum(suite.seconds for suite in suites):8.1f} s  in all"


if __name__ == "__main__":
    print(*lines([read(Path(name)) for name in sys.argv[1:]]), sep="\n")
