"""The table of `make matrix`: what passed on which version, and that one without a word has not passed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from matrix import NOT_RUN, PAGE, REPO, ROWS, SHORT, SHOWN, cells, environment, page_of, rows_of, table, verdict

REPORT = """<testsuites><testsuite>
<testcase classname="tests.integration.test_rdd_feed" name="a"/>
<testcase classname="tests.integration.test_dataframe_feed.TestFeed" name="b"/>
<testcase classname="tests.integration.test_scoring" name="c"><failure/></testcase>
<testcase classname="tests.integration.test_scoring" name="d"/>
<testcase classname="tests.integration.test_spark_ml" name="e"><error/></testcase>
</testsuite></testsuites>"""


def test_a_row_counts_tests_by_what_they_show(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert set(cells(report).values()) == {NOT_RUN}
    report.write_text(REPORT, encoding="utf-8")
    found = cells(report, tmp_path / "another.xml")
    assert found["direct, DataFrame, RDD"] == "2 passed"
    assert found["scoring"] == "1 of 2 failed"
    assert found["Spark ML"] == "1 of 1 failed"
    assert found["resume"] == NOT_RUN
    header, rule, *lines = table({"Spark 3.5.9": found})
    assert {line.count("|") for line in (header, rule, *lines)} == {len(SHOWN) + 2}
    assert rows_of(page_of({"Spark 3.5.9": found}))["Spark 3.5.9"] == found


@pytest.mark.parametrize(("bad", "good", "said"), [(0, 0, NOT_RUN), (0, 3, "3 passed"), (1, 2, "1 of 3 failed")])
def test_a_cell(bad: int, good: int, said: str) -> None:
    assert verdict(bad, good) == said


def test_another_spark_comes_before_the_environments_own(tmp_path: Path) -> None:
    given = {"PYTHONPATH": "there", "HOME": "home"}
    found = environment(tmp_path / "3.5.9", given)
    assert (found["PYTHONPATH"], found["HOME"]) == (str(tmp_path / "3.5.9"), "home")
    assert found["SPARK_HOME"] == str(tmp_path / "3.5.9/pyspark")
    found = environment(tmp_path / "tensorflow-2.20.0", given)
    assert found["PYTHONPATH"] == str(tmp_path / "tensorflow-2.20.0")
    assert "SPARK_HOME" not in found
    found = environment(tmp_path / "hadoop-3.3.6", given)
    assert (found["TESTED_HADOOP"], found["PYTHONPATH"]) == ("3.3.6", "there")


def test_all_that_is_to_be_run_is_there() -> None:
    files = [REPO / "tests" / name for names in SHOWN.values() for name in names]
    assert [file for file in files if not file.exists()] == []
    for test in SHORT:
        file, *_, name = test.split("::")
        assert f"def {name}(" in (REPO / "tests" / file).read_text(encoding="utf-8")


def test_the_page_and_make_have_the_rows_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = rows_of(page)
    assert list(found) == list(ROWS.values())
    assert page == page_of(found)
    made = re.search(r"^ONLY \?= (.*)$", (REPO / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert made is not None
    assert made[1].split() == list(ROWS)
