"""Runs tests of integration on other versions of Spark and TensorFlow, and writes which passed on which to a page.

python tests/matrix.py .sparks 3.5.9 tensorflow-2.20.0      rows of docs/versions.md, by their folders
python tests/matrix.py .sparks 3.5.9 --columns "Spark ML"   a column of a row anew
python tests/matrix.py --short REPORT .sparks 3.5.9         the tests of it that `make test` runs

One environment serves all but another Python, which has one of its own: another pyspark or tensorflow, in a folder of
its own, comes before the environment's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

REPO = Path(__file__).parents[1]
PAGE = REPO / "docs/versions.md"
TIMES = REPO / ".pytest_cache/times"

SHOWN = {
    "direct, DataFrame, RDD": ["integration/test_dataframe_feed.py", "integration/test_rdd_feed.py"],
    "filters": [
        "integration/test_filtered_scan.py",
        "integration/test_partition_filter.py",
        "integration/test_plain_scan.py",
    ],
    "resume": ["integration/test_spark_resume.py"],
    "killed executor": ["integration/test_spark_failures.py"],
    "scoring": ["integration/test_scoring.py"],
    "Spark ML": ["integration/test_spark_ml.py"],
    "TFRecords": ["integration/test_tfrecords.py"],
    "YARN": ["cluster/test_yarn_spark.py"],
    "Kubernetes": ["kubernetes/test_client_mode.py"],
}
"""What each column of the table shows, and the files of tests that show it."""

SHORT = (
    "integration/test_dataframe_feed.py::TestSources::test_three_epochs_have_each_row_once_each",
    "integration/test_rdd_feed.py::test_predicates_choose_and_hold_out_rows_by_name_too",
    "integration/test_partition_filter.py::test_no_spark_job_runs",
    "integration/test_partition_filter.py::test_partition_values_are_typed_as_spark_types_them",
    "integration/test_spark_resume.py::test_a_run_that_the_version_before_began_goes_on_from_its_checkpoint",
    "integration/test_spark_failures.py::test_a_killed_python_worker_takes_its_trainer_along_and_the_run_goes_on",
    "integration/test_spark_ml.py"
    "::test_a_pipeline_with_vectors_predicts_the_same_wherever_it_is_saved_over_its_run_and_its_own_files_too",
    "integration/test_spark_ml.py"
    "::test_a_model_of_any_kind_takes_its_output_for_probabilities_where_their_column_is_named",
)
"""Of these, what shows in a minute that a Spark is still supported: on the oldest line, a part of `make test`."""

ROWS = {
    "3.5.1": "Spark 3.5.1",
    "3.5.9": "Spark 3.5.9",
    "4.0.5": "Spark 4.0.5",
    "4.1.4": "Spark 4.1.4",
    "tensorflow-2.19.1": "TensorFlow 2.19.1",
    "tensorflow-2.20.0": "TensorFlow 2.20.0",
    "python-3.13": "Python 3.13",
    "hadoop-3.3.6": "Hadoop 3.3.6",
    "hadoop-3.4.2": "Hadoop 3.4.2",
}
"""The folders of what takes the place of the environment's own, and the rows of the table."""

NOT_RUN = "not run"

# As `PYTHONPATH=tests:yarn python -m kubernetes`; but a row's own PYTHONPATH is what its tests go by.
_IN_NETWORK = "import runpy, sys; sys.path[:0] = ['tests', 'yarn']; runpy.run_module('kubernetes', run_name='__main__')"

# PySpark 3.5 leaves sockets for the garbage collector to close, and asks a module of old about versions.
_IGNORED = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning", "DeprecationWarning")
_PYTEST = ("-m", "pytest", "-q", *(part for it in _IGNORED for part in ("-W", f"ignore::{it}")))

_BEGINNING = """\
# Versions

What `make matrix` last found, by tests of integration on each Spark and TensorFlow in place of the environment's own,
which all of `make test` runs on: the newest Spark of pip's and TensorFlow 2.21, with Java 17 and Python 3.11. YARN is
`spark-submit jobs/train.py` in client and cluster mode, on Hadoop 3.5.0 or the row's, with that Spark's Hadoop client.
Kubernetes is a driver beside the cluster and executors in pods, of which some are lost, with and without dynamic
allocation, and `sparktf doctor --nodes`: what kubernetes.md says of the API server and its pods holds here, too.
Object stores are in `make test` alone: SeaweedFS 4.48 for S3, and Azurite 3.37.0 for Azure.

"""
_END = """
Parameter servers are tied to TensorFlow 2.21, and are refused by name on others, with exit code 2 and before Spark
starts: their test holds other TensorFlows to that. The page is written by `make matrix`, some ten minutes for a row:
`make matrix ONLY=3.5.9` writes that one anew and leaves the others, as `SHOWN=resume` does of columns.
"""


def environment(packages: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of tests on what is in a folder."""
    run_by = python_of(packages)
    python = {**given, "PYTHON": run_by, "PYSPARK_PYTHON": run_by, "PYSPARK_DRIVER_PYTHON": run_by}
    if run_by != sys.executable:
        return python
    if hadoop := hadoop_of(packages):
        return {**python, "TESTED_HADOOP": hadoop}
    spark = packages / "pyspark"
    home = {"SPARK_HOME": str(spark)} if ROWS[packages.name].startswith("Spark ") else {}
    return {**python, "PYTHONPATH": str(packages), **home}


def python_of(packages: Path) -> str:
    """Returns the Python that runs a row's tests."""
    return str(packages / "bin/python") if ROWS[packages.name].startswith("Python ") else sys.executable


def hadoop_of(packages: Path) -> str:
    """Returns the Hadoop of a row which tells of one; "" for the others."""
    return ROWS[packages.name].partition("Hadoop ")[2]


def columns_of(packages: Path) -> list[str]:
    """Returns the columns that a row shows: another Hadoop has a part in YARN's alone."""
    return ["YARN"] if hadoop_of(packages) else list(SHOWN)


def run(packages: Path, columns: Sequence[str]) -> dict[str, str]:
    """Runs the tests of some columns of a row, those of YARN and of pods in networks of theirs; returns their cells."""
    report = TIMES / f"matrix-{packages.name}.xml"
    on_cluster, of_pods = report.with_suffix(".cluster.xml"), report.with_suffix(".pods.xml")
    files = [f"tests/{name}" for column in columns for name in SHOWN[column]]
    there, pods = ([name for name in files if name.startswith(f"tests/{part}/")] for part in ("cluster", "kubernetes"))
    if here := [name for name in files if name not in (*there, *pods)]:
        _call(packages, report, ["-m", "not more", *here])
    chosen = ["--hadoop", hadoop] if (hadoop := hadoop_of(packages)) else []
    if there:
        _call(packages, on_cluster, there, [str(REPO / "yarn/minihadoop.sh"), "as-root", *chosen, "--"])
    if pods:
        _call(packages, of_pods, pods, [sys.executable, "-c", _IN_NETWORK])
    found = cells(*([report] if here else []), *([on_cluster] if there else []), *([of_pods] if pods else []))
    return {column: found[column] for column in columns}


def _call(packages: Path, report: Path, chosen: Sequence[str], before: Sequence[str] = ()) -> int:
    """Runs chosen tests of a row; returns pytest's exit code."""
    report.unlink(missing_ok=True)
    command = [*before, python_of(packages), *_PYTEST, f"--junitxml={report}", *chosen]
    return subprocess.run(command, check=False, cwd=REPO, env=environment(packages, os.environ)).returncode


def cells(*reports: Path) -> dict[str, str]:
    """Returns a row of the table, by reports in JUnit's format: how many tests of each column passed."""
    counts = {name: [0, 0] for name in SHOWN}
    column = {Path(file).stem: name for name, files in SHOWN.items() for file in files}
    for report in filter(Path.exists, reports):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            module = next(part for part in case.get("classname", "").split(".") if part.startswith("test_"))
            counts[column[module]][case.find("failure") is None and case.find("error") is None] += 1
    return {name: verdict(bad, good) for name, (bad, good) in counts.items()}


def verdict(bad: int, good: int) -> str:
    """Returns the text of a cell."""
    if not bad + good:
        return NOT_RUN
    return f"{bad} of {bad + good} failed" if bad else f"{good} passed"


def table(rows: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yields the lines of the table in Markdown; rows that nobody has run have a word for that."""
    yield "| | " + " | ".join(SHOWN) + " |"
    yield "|---" * (len(SHOWN) + 1) + "|"
    for name in ROWS.values():
        yield f"| {name} | " + " | ".join(rows.get(name, {}).get(column, NOT_RUN) for column in SHOWN) + " |"


def rows_of(page: str) -> dict[str, dict[str, str]]:
    """Returns the rows of the table in a page."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    if not lines:
        return {}
    (_, *columns), *rows = lines
    return {name: dict(zip(columns, found, strict=True)) for name, *found in rows}


def page_of(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Returns the whole page."""
    return _BEGINNING + "\n".join(table(rows)) + "\n" + _END


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 unless all tests have passed in each row."""
    parser = argparse.ArgumentParser(description="Runs tests of integration on other versions.")
    parser.add_argument("folder", type=Path, help="has the packages of each row")
    parser.add_argument("rows", nargs="+", choices=ROWS)
    parser.add_argument("--columns", nargs="+", choices=SHOWN, default=[], help="of the rows; the others stay")
    parser.add_argument("--short", type=Path, metavar="REPORT", help="run few tests of one row, and write no page")
    args = parser.parse_args(arguments)
    chosen = {(args.folder / row).absolute(): args.columns or columns_of(args.folder / row) for row in args.rows}
    if args.short is not None:
        (packages,) = chosen
        return _call(packages, args.short, [f"tests/{test}" for test in SHORT])
    found = {ROWS[packages.name]: run(packages, columns) for packages, columns in chosen.items()}
    known = rows_of(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page_of(known | {name: known.get(name, {}) | row for name, row in found.items()}), encoding="utf-8")
    print(*table(found), sep="\n")
    return int(any(not cell.endswith(" passed") for row in found.values() for cell in row.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
