"""What `make flaky` prints: which tests failed how often."""

from __future__ import annotations

from pathlib import Path

from flaky import failed, lines

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest">
<testcase classname="tests.unit.test_x" name="test_good" time="0.1"/>
<testcase classname="tests.unit.test_x" name="test_bad[a]" time="0.1"><failure message="no">x</failure></testcase>
<testcase classname="tests.unit.test_x" name="test_broken" time="0.1"><error message="no">x</error></testcase>
</testsuite></testsuites>"""


def test_tests_that_failed_and_those_whose_fixtures_did_are_counted(tmp_path: Path) -> None:
    report = tmp_path / "unit.xml"
    assert failed(report) == [], "a suite that has not come so far"
    report.write_text(REPORT, encoding="utf-8")
    assert failed(report) == ["unit.test_x::test_bad[a]", "unit.test_x::test_broken"]


def test_the_most_frequent_comes_first() -> None:
    assert list(lines({}, 20)) == ["20 runs, no failure"]
    assert list(lines({"unit.test_x::test_a": 1, "unit.test_x::test_b": 3}, 20)) == [
        "2 of the tests failed now and then, in 20 runs:",
        "   3 of 20  unit.test_x::test_b",
        "   1 of 20  unit.test_x::test_a",
    ]
