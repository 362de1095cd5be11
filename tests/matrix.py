"""Runs tests of integration on other versions of Spark, and prints which passed on which.

python tests/matrix.py .sparks 3.5.1 3.5.9     a version that is not in the folder yet is installed into it

One environment serves all: another pyspark comes before its own on the path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

REPO = Path(__file__).parents[1]
TIMES = REPO / ".pytest_cache/times"

SHOWN = {
    "direct, DataFrame, RDD": ["test_dataframe_feed.py", "test_rdd_feed.py"],
    "filters": ["test_filtered_scan.py", "test_partition_filter.py", "test_plain_scan.py"],
    "resume": ["test_spark_resume.py"],
    "killed executor": ["test_spark_failures.py"],
    "scoring": ["test_scoring.py"],
    "Spark ML": ["test_spark_ml.py"],
    "TFRecords": ["test_tfrecords.py"],
}
"""What each column of the table shows, and the files of tests that show it."""


# PySpark 3.5 leaves sockets for the garbage collector to close, and asks a module of old about versions.
_IGNORED = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning", "DeprecationWarning")
_ITS_OWN = [part for warning in _IGNORED for part in ("-W", f"ignore::{warning}")]


def install(folder: Path, version: str) -> Path:
    """Returns where a Spark lies, after installing it; without its dependencies, which the environment has."""
    packages = folder / version
    if not (packages / "pyspark/version.py").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--no-deps", "--upgrade", "--target", packages, f"pyspark=={version}"], check=True)
    return packages


def environment(packages: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of tests on a Spark that lies elsewhere than the environment's own."""
    return {**given, "PYTHONPATH": str(packages), "SPARK_HOME": str(packages / "pyspark")}


def run(packages: Path, version: str) -> dict[str, str]:
    """Runs the tests on one Spark; returns what its row of the table says."""
    report = TIMES / f"matrix-{version}.xml"
    report.unlink(missing_ok=True)
    files = [f"tests/integration/{name}" for names in SHOWN.values() for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not more", f"--junitxml={report}", *_ITS_OWN, *files]
    subprocess.run(command, check=False, cwd=REPO, env=environment(packages.absolute(), os.environ))
    return row(report)


def row(report: Path) -> dict[str, str]:
    """Returns a row of the table, by a report in JUnit's format: how many tests of each column passed."""
    if not report.exists():
        return dict.fromkeys(SHOWN, "did not run")
    counts = {name: [0, 0] for name in SHOWN}
    column = {file.removesuffix(".py"): name for name, files in SHOWN.items() for file in files}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module = next(part for part in case.get("classname", "").split(".") if part.startswith("test_"))
        counts[column[module]][case.find("failure") is None and case.find("error") is None] += 1
    return {name: verdict(bad, good) for name, (bad, good) in counts.items()}


def verdict(bad: int, good: int) -> str:
    """Returns the text of a cell."""
    if not bad + good:
        return "did not run"
    return f"{bad} of {bad + good} failed" if bad else f"{good} passed"


def table(rows: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    yield "| Spark | " + " | ".join(SHOWN) + " |"
    yield "|---" * (len(SHOWN) + 1) + "|"
    for version, cells in rows.items():
        yield f"| {version} | " + " | ".join(cells[name] for name in SHOWN) + " |"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 unless all tests have passed on each Spark."""
    folder, *versions = arguments
    rows = {version: run(install(Path(folder), version), version) for version in versions}
    print(*table(rows), sep="\n")
    return int(any("passed" not in cell for cells in rows.values() for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
