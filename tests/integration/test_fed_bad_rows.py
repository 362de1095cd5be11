"""Bad rows of a DataFrame that Spark feeds: left out and listed up to a limit, beyond it refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from integration.application import Application
from integration.rows import job
from integration.watch import Watch

from sparktf import Verdict

# One partition has bad rows alone.
SIZES = [400, 0, 3, 250]
ROWS = sum(SIZES)
NO_A = {10: (0, 9), 401: (2, 0), 402: (2, 1), 403: (2, 2), 653: (3, 249)}
NO_Y = {400: (0, 399), 404: (3, 0)}
BAD = {id: ("a", *place) for id, place in NO_A.items()} | {id: ("y", *place) for id, place in NO_Y.items()}
FRAME: dict[str, Any] = {"frame": "cases.frames:with_bad", "sizes": SIZES, "no_a": [*NO_A], "no_y": [*NO_Y]}


def aside_job(application: Application, watch: Watch, name: str, limit: int, **sections: Any) -> dict[str, Any]:
    data = {"path": None, "mode": "spark", "max_bad_rows": limit, "shuffle_rows": 100}
    sections = {"params": watch.params(), "name": f"aside-{name}", "data": data, **sections}
    return job(Path(), application.sandbox.runs, "cases.watched:build", **sections)


def listed(application: Application, config: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what the files of a run say about each bad row."""
    files = Path(application.run(config, "r").path, "bad_rows").glob("*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_bad_rows_are_left_out_and_listed_by_partition_and_row(local: Application, watch: Watch) -> None:
    config = aside_job(local, watch, "some", len(BAD), train={"epochs": 2})
    outcome = local.train(config, "r", **FRAME)
    assert watch.ids(watch.pids()) == dict.fromkeys((i for i in range(1, ROWS + 1) if i not in BAD), 2)
    accounts = [(e.planned, e.fed, e.trained, e.set_aside, e.complete) for e in outcome.done.rows]
    assert accounts == [(ROWS, ROWS, ROWS - len(BAD), len(BAD), True)] * 2
    rows = listed(local, config)
    found = [(row["epoch"], row["column"], row["origin"], row["row"], row["rows"], row["stream"]) for row in rows]
    expected = [(column, f"partition {split} of the data", row, 1, "train") for column, split, row in BAD.values()]
    assert sorted(found) == sorted((epoch, *place) for epoch in (0, 1) for place in expected)
    reasons = {(row["column"], row["reason"].partition(";")[0]) for row in rows}
    assert reasons == {("a", "null"), ("y", "nan cannot be a target")}
    assert any(f"{len(BAD)} rows fail a check" in warning for warning in outcome.done.warnings)


def test_more_than_the_limit_are_refused_with_a_row_and_listed(local: Application, watch: Watch) -> None:
    config = aside_job(local, watch, "many", len(BAD) - 1, cluster={"strategy": "single", "workers": 1})
    outcome = local.train(config, "r", **FRAME)
    assert (outcome.error, outcome.verdict) == ("BadValueError", Verdict.DATA_REFUSED)
    says = f"{len(BAD)} rows fail a check, and data.max_bad_rows is {len(BAD) - 1}; one of them: partition "
    assert says in outcome.message
    _, _, named = outcome.message.strip().partition("one of them: ")
    rows = listed(local, config)
    assert len(rows) == len(BAD)
    assert named.splitlines() in [
        [f"{row['origin']}: column {row['column']!r}, row {row['row']}: {row['reason']}"] for row in rows
    ]
