"""Training on RDDs of dicts, Rows and tuples: every row exactly once in every epoch, and what is no row is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.cases.rdds import NESTED, SCHEMA
from integration.rows import job
from integration.watch import Watch
from split import only

SIZES = [5, 0, 4500, 1, 0, 700]
ROWS = sum(SIZES)
SINGLE = {"strategy": "single", "workers": 1}


def rdd_job(
    application: Application, watch: Watch, name: str, data: dict[str, Any] | None = None, **sections: Any
) -> dict[str, Any]:
    source = {"path": None, "rdd_schema": SCHEMA, "shuffle_rows": 500, **(data or {})}
    runs = application.sandbox.runs
    sections = {"params": watch.params(), "data": source, "name": f"rdd-{name}", **sections}
    return job(Path(), runs, "cases.watched:build", **sections)


@pytest.mark.parametrize("kind", only("dicts", of=["dicts", "tuples"]))
def test_each_row_is_trained_on_once_in_each_epoch(local: Application, watch: Watch, kind: str) -> None:
    config = rdd_job(local, watch, kind, {"cache": "off" if kind == "dicts" else "on"}, train={"epochs": 2})
    result = local.train(config, "r", "cases.rdds:rows", sizes=SIZES, kind=kind).done
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, ROWS + 1), 2)
    assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(ROWS, ROWS, ROWS, True)] * 2


def test_a_feeder_on_executors_that_fails_midway_is_tried_again_and_rows_are_read_by_name(
    cluster: Application, watch: Watch, tmp_path: Path
) -> None:
    config = rdd_job(cluster, watch, "rows", train={"batch_size": 1024}, cluster=SINGLE)
    sizes = [500, 40_000, 0, 300]  # 16,384 rows are sent at once
    rows = sum(sizes)
    options: dict[str, Any] = {"sizes": sizes, "raises": 20_000, "exits": 38_000, "folder": str(tmp_path)}
    result = cluster.train(config, "r", "cases.rdds:failing_once", **options).done
    assert {path.name for path in tmp_path.glob("failed-*")} == {"failed-20000", "failed-38000"}
    assert len(result.attempts) == 1
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, rows + 1), 1)
    assert [(e.planned, e.fed, e.trained) for e in result.rows] == [(rows, rows, rows)]


def test_a_function_of_the_users_may_return_an_rdd(local: Application, watch: Watch) -> None:
    config = rdd_job(local, watch, "source", {"source": "cases.rdds:source"}, cluster=SINGLE)
    config["params"]["sizes"] = [40, 0, 7]
    outcome = local.train(config, "r")
    assert outcome.done.rows_trained == 47
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, 48), 1)
    assert "data: read through Spark, the source is an RDD" in outcome.output


@pytest.mark.more("integration/test_rdd_feed.py::test_predicates_choose_and_hold_out_rows_by_name_too")
def test_fields_of_rows_within_rows_are_columns(local: Application, watch: Watch) -> None:
    inputs = {"id": "who.id", "x": ["who.x.a", "who.x.b"]}
    config = rdd_job(local, watch, "nested", {"rdd_schema": NESTED, "inputs": inputs}, cluster=SINGLE)
    local.train(config, "r", "cases.rdds:nested", sizes=[30, 0, 400])
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, 431), 1)


def test_predicates_choose_and_hold_out_rows_by_name_too(local: Application, watch: Watch) -> None:
    data = {
        "rdd_schema": NESTED,
        "inputs": {"id": "who.id", "x": ["who.x.a", "who.x.b"]},
        "where": "who.other < -100",
        "validation": {"where": "who.id % 5 = 0"},
    }
    config = rdd_job(local, watch, "where", data, cluster=SINGLE)
    result = local.train(config, "r", "cases.rdds:nested", sizes=[200, 0, 300]).done
    assert watch.ids(watch.pids()) == dict.fromkeys((i for i in range(101, 501) if i % 5), 1)
    assert [(e.planned, e.trained) for e in result.rows] == [(320, 320)]


@pytest.mark.parametrize(
    ("bad", "data", "error", "says"),
    [
        pytest.param(
            {"kind": "dicts", "column": "a", "value": "much"},
            {},
            "BadValueError",
            "partition 2 of the RDD, row 11: column 'a': 'much' is not a value of type float",
            id="text",
        ),
        pytest.param(
            {"kind": "rows", "column": "a", "value": "much"},
            {"where": "id > 10"},
            "BadValueError",
            "partition 2 of the RDD, row 11: column 'a': 'much' is not a value of type float",
            id="with-a-predicate",
        ),
        pytest.param({"kind": "tuples"}, {"rdd_schema": None}, "ConfigError", "data.rdd_schema", id="no-schema"),
        pytest.param(
            {"kind": "tuples"}, {"rdd_schema": "id bigint a"}, "ConfigError", "data.rdd_schema", id="bad-schema"
        ),
    ],
)
def test_what_is_no_row_is_refused_in_one_line(
    local: Application,
    watch: Watch,
    request: pytest.FixtureRequest,
    bad: dict[str, Any],
    data: dict[str, Any],
    error: str,
    says: str,
) -> None:
    config = rdd_job(local, watch, f"refused-{request.node.callspec.id}", data, cluster=SINGLE)
    outcome = local.train(config, "r", "cases.rdds:rows", sizes=[30, 0, 50], at=42, **bad)
    assert (outcome.error, says in outcome.message) == (error, True), outcome.message
    assert "\n" not in outcome.message.strip()
    assert not local.family.trainers()


def test_a_function_that_cannot_be_sent_to_executors_is_named_at_once(local: Application, watch: Watch) -> None:
    config = rdd_job(local, watch, "unsendable", cluster=SINGLE)
    outcome = local.train(config, "r", "cases.rdds:unsendable", sizes=[5])
    assert outcome.error == "DataError"
    assert "cannot pickle '_thread.lock' object" in outcome.message
