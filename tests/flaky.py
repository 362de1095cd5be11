"""Runs suites again and again on a machine that is busy otherwise, and prints which of their tests failed how often.

python tests/flaky.py --times 20 trainer-others fuzz     the names are targets of the Makefile
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

TIMES = Path(__file__).parents[1] / ".pytest_cache/times"
BUSY = "while True: pass"
"""What takes a processor."""


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Has so many other processes compute meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def failed(report: Path) -> list[str]:
    """Returns the tests that failed, or whose fixtures did, as a report in JUnit's format says."""
    if not report.exists():
        return []
    cases = ElementTree.parse(report).getroot().iter("testcase")
    bad = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return [f"{case.get('classname')}::{case.get('name')}".removeprefix("tests.") for case in bad]


def run(suite: str) -> list[str]:
    """Runs a suite once; returns which tests failed, or that it has ended otherwise without a word of any."""
    report = TIMES / f"{suite}.xml"
    report.unlink(missing_ok=True)
    code = subprocess.run(["make", "--no-print-directory", suite], check=False).returncode
    return failed(report) or ([f"{suite}: exit code {code}, and no test has failed"] if code else [])


def lines(counts: Mapping[str, int], times: int) -> Iterator[str]:
    """Yields what is printed in the end."""
    yield f"{len(counts)} of the tests failed now and then, in {times} runs:" if counts else f"{times} runs, no failure"
    for name, count in sorted(counts.items(), key=lambda found: (-found[1], found[0])):
        yield f"{count:4d} of {times}  {name}"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 where a test has failed once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, required=True)
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that compute beside a suite")
    parser.add_argument("suites", nargs="+")
    asked = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    with load(asked.load):
        for number in range(1, asked.times + 1):
            for suite in asked.suites:
                counts.update(set(run(suite)))
                print(*lines(counts, number), sep="\n", flush=True)
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
