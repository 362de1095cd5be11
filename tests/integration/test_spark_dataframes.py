"""Tables, queries and DataFrames: whoever reads them, the rows are those that Spark collects."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from integration.application import Application
from integration.rows import job
from integration.watch import Watch
from lakes import write_file

from sparktf.nightly.report.stored import gather
from sparktf.nightly.report.words import number
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.local import LocalStorage

SINGLE = {"strategy": "single", "workers": 1}
COLUMNS = "id, left_half as a, right_half as b, y"


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of three days of 100, 73 and 5 rows, whose columns are called otherwise than the model calls them."""
    lake, first = tmp_path_factory.mktemp("days") / "lake", 1
    for day, rows in enumerate((100, 73, 5), start=1):
        a, b = np.random.default_rng(day).normal(size=(2, rows)).astype(np.float32)
        ids = np.arange(first, first + rows)
        table = pa.table({"id": ids, "left_half": a, "right_half": b, "y": 2 * a - b + 1})
        write_file(lake / f"day=2026-11-0{day}/part-0.parquet", table, group_rows=40)
        first += rows
    return lake


def frame_job(runs: Path, watch: Watch, data: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Returns a configuration over another source than a path."""
    source = {"path": None, **data}
    return job(Path(), runs, "cases.watched:build", data=source, params=watch.params(), **sections)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("auto", "data: read directly by the trainers, a plain scan of 2 Parquet files"),
        ("spark", "data: read through Spark, data.mode: spark asks for it"),
    ],
)
def test_a_dataframe_handed_to_train_is_trained_on_with_the_rows_that_spark_collects(
    local: Application, days: Path, watch: Watch, mode: str, says: str
) -> None:
    query = f"select {COLUMNS} from parquet.`{days}` where day > '2026-11-01'"
    sections = {"name": f"handed-{mode}", "train": {"epochs": 2, "batch_size": 32}}
    config = frame_job(local.sandbox.runs, watch, {"mode": mode}, **sections)
    outcome = local.train(config, "r", "cases.queries:query", text=query)
    expected = Counter(row[0] for row in local.collect("cases.queries:query", text=query))
    assert [(e.planned, e.fed, e.trained) for e in outcome.done.rows] == [(78, 78, 78)] * 2
    assert len(expected) == 78
    assert watch.ids(watch.pids()) == Counter({i: 2 * n for i, n in expected.items()})
    assert says in outcome.output


@pytest.mark.more(
    "integration/test_source_calls.py::test_it_is_called_once_to_plan_to_prepare_and_to_feed",
    "integration/test_spark_dataframes.py::test_a_dataframe_handed_to_train_is_trained_on_with_the_rows_that_spark_collects",
)
def test_a_function_of_the_users_names_the_rows(local: Application, days: Path, watch: Watch) -> None:
    config = frame_job(local.sandbox.runs, watch, {"source": "cases.queries:late"}, name="named", cluster=SINGLE)
    config["params"]["lake"] = str(days)
    assert local.train(config, "r").done.rows_trained == 78
    assert set(watch.ids(watch.pids())) == set(range(101, 179))


def test_prepare_sees_the_rows_of_a_query_that_are_trained_on(local: Application, days: Path, watch: Watch) -> None:
    data = {"sql": f"select {COLUMNS}, day from parquet.`{days}`", "validation": {"where": "day = '2026-11-02'"}}
    config = frame_job(local.sandbox.runs, watch, data, name="prepared", cluster=SINGLE)
    config |= {"model": "cases.prepared:build", "params": {"columns": ["a", "b"]}}
    done = local.train(config, "r").done
    assert done.rows_trained == 105
    assert json.loads((local.run(config, "r").path / "assets.json").read_text())["rows"] == 105


@pytest.mark.more(
    "integration/test_dataframe_feed.py::TestSources::test_three_epochs_have_each_row_once_each",
    "integration/test_plain_scan.py::test_anything_else_is_not_and_says_why",
)
def test_a_join_is_read_through_spark_and_the_reason_is_said(local: Application, days: Path, watch: Watch) -> None:
    rows = f"select {COLUMNS} from parquet.`{days}`"
    query = f"select l.id, l.a, r.b, r.y from ({rows}) l join ({rows}) r on l.id = r.id"
    outcome = local.train(frame_job(local.sandbox.runs, watch, {"sql": query}, name="joined"), "r")
    assert outcome.done.rows_trained == 178
    assert watch.ids(watch.pids()) == Counter(range(1, 179))
    assert "data: read through Spark, the plan has a BroadcastHashJoin" in outcome.output


def test_the_history_of_runs_is_a_table_of_spark_as_it_lies(local: Application, rows: Path, watch: Watch) -> None:
    runs = local.sandbox.folder / "history"
    config = job(rows, runs, "cases.watched:build", name="kept", params=watch.params(), cluster=SINGLE)
    config["output"] |= {"history": True, "report": True}
    config["data"]["validation"] = {"path": str(rows)}
    done = local.train(config, "1").done
    check_report(runs / "kept", done)
    assert local.train({**config, "model": "cases.failing:build"}, "2").error == "ModelError"
    table = f"parquet.`{runs}/_runs`"
    facts = "name, run_id, verdict, cause is null, rows, started is null, date is null, waiting_share between 0 and 1"
    kept = local.collect("cases.queries:query", text=f"select {facts} from {table} order by run_id")
    assert kept[0] == ["kept", "1", 0, True, 600, False, True, True]
    assert kept[1][:5] == ["kept", "2", 1, False, 0]
    seconds = local.collect("cases.queries:query", text=f"select explode(seconds) from {table} where verdict = 0")
    assert dict(seconds) == done.seconds
    loss = f"select metrics['validation']['loss'] from {table} order by run_id"
    assert local.collect("cases.queries:query", text=loss) == [[done.metrics["validation"]["loss"]], [None]]
    # A later version may know more: Spark merges what the files have.
    later = pa.table({"run_id": ["3"], "verdict": pa.array([5], pa.int32()), "champion": [0.5]})
    write_file(runs / "_runs/name=kept/3.parquet", later)
    merged = f"select run_id, champion, rows from {table} with (mergeSchema = 'true') order by run_id"
    assert local.collect("cases.queries:query", text=merged) == [["1", None, 600], ["2", None, 0], ["3", 0.5, None]]


def check_report(folder: Path, done: RunResult) -> None:
    """Checks the pages of a run that has trained 600 rows, and what its trainers told for it."""
    page = (folder / "1/report.html").read_text(encoding="utf-8")
    assert "<h1>Trained</h1>" in page
    assert 'aria-label="Loss by update: ' in page
    assert number(done.metrics["validation"]["loss"]) in page
    assert 'href="1/report.html"' in (folder / "index.html").read_text(encoding="utf-8")
    told = gather(LocalStorage(), RunDirectory(str(folder.parent), "kept", "1")).told
    (samples,) = (attempt.samples for attempt in told.attempts)
    assert samples.steps[-1] == done.steps
    assert {node: rows[-1] for node, rows in samples.rows.items()} == {"worker 0": 600}
