"""The table of `make matrix`: what passed on which Spark, and that a Spark without a word has not passed."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix import REPO, SHOWN, environment, row, table, verdict

REPORT = """<testsuites><testsuite>
<testcase classname="tests.integration.test_rdd_feed" name="a"/>
<testcase classname="tests.integration.test_dataframe_feed.TestFeed" name="b"/>
<testcase classname="tests.integration.test_scoring" name="c"><failure/></testcase>
<testcase classname="tests.integration.test_scoring" name="d"/>
<testcase classname="tests.integration.test_spark_ml" name="e"><error/></testcase>
</testsuite></testsuites>"""


def test_a_row_counts_tests_by_what_they_show(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert set(row(report).values()) == {"did not run"}
    report.write_text(REPORT, encoding="utf-8")
    cells = row(report)
    assert cells["direct, DataFrame, RDD"] == "2 passed"
    assert cells["scoring"] == "1 of 2 failed"
    assert cells["Spark ML"] == "1 of 1 failed"
    assert cells["resume"] == "did not run"
    header, rule, line = table({"3.5.9": cells})
    assert header.count("|") == rule.count("|") == line.count("|") == len(SHOWN) + 2


@pytest.mark.parametrize(("bad", "good", "said"), [(0, 0, "did not run"), (0, 3, "3 passed"), (1, 2, "1 of 3 failed")])
def test_a_cell(bad: int, good: int, said: str) -> None:
    assert verdict(bad, good) == said


def test_another_spark_comes_before_the_environments_own(tmp_path: Path) -> None:
    found = environment(tmp_path, {"PYTHONPATH": "there", "HOME": "home"})
    assert found == {"PYTHONPATH": str(tmp_path), "SPARK_HOME": str(tmp_path / "pyspark"), "HOME": "home"}


def test_all_that_is_to_be_run_is_there() -> None:
    files = [REPO / "tests/integration" / name for names in SHOWN.values() for name in names]
    assert [file for file in files if not file.exists()] == []
