"""What `make test` ends with: the slowest tests of all suites."""

from __future__ import annotations

from pathlib import Path

import pytest
from slowest import lines, main, read


def write_report(path: Path, started: str, seconds: float, tests: dict[str, float]) -> Path:
    """Writes a report as pytest does, of tests that pass, fail and complain."""
    cases = [
        f'<testcase classname="tests.{path.stem}.test_x" name="{name}" time="{time}"><failure message="no">x</failure>'
        "</testcase>"
        for name, time in tests.items()
    ]
    attributes = f'tests="{len(tests)}" time="{seconds}" timestamp="2026-11-22T{started}+00:00"'
    path.write_text(
        '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">'
        f'<testsuite name="pytest" errors="0" {attributes} hostname="h">{"".join(cases)}</testsuite></testsuites>',
        encoding="utf-8",
    )
    return path


def test_the_slowest_tests_of_all_suites_are_told_and_each_suites_time(tmp_path: Path) -> None:
    unit = write_report(tmp_path / "unit.xml", "10:00:00.500000", 61.5, {f"test_{i}": i / 100 for i in range(30)})
    cluster = write_report(tmp_path / "cluster.xml", "10:01:00.500000", 600, {"test_a[x]": 40, "test_b": 0.205})
    said = list(lines([read(unit), read(cluster)]))
    assert said[:4] == [
        "the slowest 20 of 32 tests:",
        "    40.0 s  cluster.test_x::test_a[x]",
        "     0.3 s  unit.test_x::test_29",
        "     0.3 s  unit.test_x::test_28",
    ]
    assert [line.split()[-1] for line in said[9:12]] == [
        "unit.test_x::test_22",
        "unit.test_x::test_21",
        "cluster.test_x::test_b",
    ]
    assert said[21:] == [
        "the suites:",
        "    61.5 s  unit, 30 tests",
        "   600.0 s  cluster, 2 tests",
        "   660.0 s  from the first to the last, some at once",
    ]


def test_suites_that_were_not_begun_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = write_report(tmp_path / "unit.xml", "10:00:00", 1, {"test_a": 1})
    main([unit, tmp_path / "pages.xml"])
    assert "     1.0 s  unit, 1 tests" in capsys.readouterr().out.splitlines()
    main([tmp_path / "pages.xml"])
    assert capsys.readouterr().out == "no suite was run\n"
