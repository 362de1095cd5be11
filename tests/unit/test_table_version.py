"""Which version of a table a run asks Spark for, and what it says of one that is not there."""

from __future__ import annotations

import pytest

from sparktf.driver.source.table_version import Moment


@pytest.mark.parametrize(
    ("moment", "options"),
    [
        (Moment("data"), {}),
        (Moment("data", version=0), {"versionAsOf": "0"}),
        (Moment("data", version=5271175311196693878), {"versionAsOf": "5271175311196693878"}),
        (Moment("data", timestamp="2026-11-20"), {"timestampAsOf": "2026-11-20T00:00:00"}),
        (Moment("data", timestamp="20261120T0200Z"), {"timestampAsOf": "2026-11-20T02:00:00+00:00"}),
        (Moment("data", planned=3), {"versionAsOf": "3"}),
        (Moment("data", planned=0, version=7), {"versionAsOf": "0"}),
        (Moment("data", planned=3, timestamp="2026-11-20"), {"versionAsOf": "3"}),
    ],
)
def test_the_plan_goes_before_the_configuration_and_else_the_newest_is_read(
    moment: Moment, options: dict[str, str]
) -> None:
    assert moment.options == options


def test_what_is_not_there_is_told_by_the_key_that_asks_for_it() -> None:
    source = "data.table sales"
    asked = Moment("data", version=7)
    assert asked.not_found(source, "why") == "data.version: data.table sales has no version 7 (why)"
    assert asked.without_versions(source).startswith("data.version: data.table sales has no versions")
    then = Moment("predict.source", timestamp="2026-11-20")
    assert then.not_found("predict.source.table sales", "why") == (
        "predict.source.timestamp: predict.source.table sales has no version as old as 2026-11-20 (why)"
    )


def test_a_planned_version_that_is_gone_asks_for_another_run() -> None:
    planned = Moment("data", planned=3, version=3)
    for said in (planned.not_found("data.table sales", "why"), planned.without_versions("data.table sales")):
        assert said.startswith("data.table sales: ")
        assert "version 3" in said
        assert said.endswith("use another --run-id")
