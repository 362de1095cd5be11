"""Tables of Delta and Iceberg, with their own connectors: which version a run reads, and reads again."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.lake_tables import DELTA, ICEBERG, KINDS, NAMES, Kind, made, of_table
from integration.processes import wait_for
from integration.sandbox import RunFolder
from integration.watch import Watch
from split import only

from sparktf import Verdict
from sparktf.wire.exported import EXPORTED, ModelFeed

ROWS = 300
EVERY, HOLD_AT = 5, 7  # of 10 updates in an epoch


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()


def ids(application: Application, config: dict[str, Any]) -> list[list[int]]:
    """Returns the ids that a configuration leads to, each with its partition."""
    return application.collect("cases.versioned:ids", config=config)


def exported(run: RunFolder) -> ModelFeed:
    return ModelFeed.model_validate_json((run.model / EXPORTED).read_bytes())


def test_a_run_reads_one_version_whatever_becomes_of_the_table(
    spark41: Application, kind: Kind, watch: Watch, table_lake: Path, tmp_path: Path
) -> None:
    # Files of as many rows each: nobody could see by their rows' number that they have changed places.
    table = made(spark41, kind, "sales", rows=ROWS, commits=kind.commits, files=6 // kind.commits)
    config = of_table(spark41, f"sales-{kind.format}", table=table, mode=kind.mode)
    config |= {
        "model": "cases.hand_written:train",
        "params": watch.params(hold_at=HOLD_AT),
        "train": {"batch_size": 30},
        "checkpoint": {"every_steps": EVERY},
    }
    run = spark41.run(config, "r")
    watch.hold()
    spark41.begin(config, "r")
    [held] = watch.held(1)
    wait_for("a commit", run.committed, within_s=60)
    spark41.interrupt()
    interrupted = spark41.outcome()
    assert interrupted.error == "KeyboardInterrupt"
    version = run.result().source_version
    assert f"data: version {version} of the table is read" in interrupted.output
    watch.release()

    then = now()
    changes = [f"DELETE FROM {table} WHERE id <= 100", f"ALTER TABLE {table} ADD COLUMN z INT"]
    spark41.collect("cases.versioned:run", statements=changes)
    resumed = spark41.train(config, "r").done
    assert (resumed.source_version, resumed.attempts[0].from_step) == (version, EVERY)
    assert [(e.planned, e.fed, e.trained, e.complete) for e in resumed.rows] == [(ROWS, ROWS, ROWS, True)]
    later = [pid for pid in watch.pids() if pid != held.pid]
    assert watch.ids([held.pid], updates=EVERY) + watch.ids(later) == dict.fromkeys(range(1, ROWS + 1), 1)
    assert exported(run).source_version == version
    assert json.loads((run.path / "result.json").read_bytes())["source_version"] == version

    newest = of_table(spark41, "newest", table=table)
    assert {i for i, _ in ids(spark41, newest)} == set(range(101, ROWS + 1))
    path = str(table_lake / kind.folder / "sales")
    for older in ({"version": version}, {"timestamp": then}):
        there = of_table(spark41, "there", path=path, format=kind.format, **older)
        assert {i for i, _ in ids(spark41, there)} == set(range(1, ROWS + 1))
    named = of_table(spark41, f"older-{kind.format}", table=table, timestamp=then)
    outcome = spark41.train(named, "r").done
    assert (outcome.rows_trained, outcome.source_version) == (ROWS, version)

    source = {"table": table, "version": version}
    config["predict"] = {"model": "run:r", "source": source, "output": {"path": str(tmp_path / "scores")}}
    scored = spark41.collect("cases.versioned:scored", config=config, date="2026-11-20")
    assert {i for (i,) in scored} == set(range(1, ROWS + 1))


@pytest.mark.parametrize("kind", only(DELTA, of=KINDS), ids=NAMES, indirect=True)
def test_a_version_that_is_gone_ends_the_run_that_has_read_it(spark41: Application, kind: Kind) -> None:
    table = made(spark41, kind, "gone", rows=7)
    config = of_table(spark41, f"gone-{kind.format}", table=table)
    failed = spark41.train({**config, "model": "cases.failing:build"}, "r").failed
    version = failed.source_version
    spark41.collect("cases.versioned:run", statements=[f"DROP TABLE {table} PURGE"])
    made(spark41, kind, "gone", rows=0)
    outcome = spark41.train(config, "r")
    assert (outcome.error, outcome.verdict) == ("SourceNotFoundError", Verdict.DATA_REFUSED)
    assert f"data.table {table}: version {version}, which this run reads, no longer exists" in outcome.message
    assert "use another --run-id" in outcome.message


@pytest.mark.parametrize("kind", only(ICEBERG, of=KINDS), ids=NAMES, indirect=True)
def test_a_version_has_the_same_partitions_whenever_it_is_read(spark41: Application, kind: Kind) -> None:
    table = made(spark41, kind, "parts", rows=ROWS, commits=kind.commits, files=6 // kind.commits)
    config = of_table(spark41, "parts", table=table)
    first, *others = (ids(spark41, config) for _ in range(8))
    assert {partition for _, partition in first} == set(range(6))
    assert others == [first] * 7


def test_what_is_not_there_is_refused_by_its_name(spark41: Application, kind: Kind, table_lake: Path) -> None:
    table = made(spark41, kind, "few", rows=7)
    views = [f"CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT * FROM {table}"]
    spark41.collect("cases.versioned:run", statements=views)
    path = str(table_lake / kind.folder / "few")
    # Delta by itself refuses moments after the last commit.
    assert len(ids(spark41, of_table(spark41, "quiet", table=table, timestamp=now()))) == 7
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"table": table, "version": 99}, "SourceNotFoundError", f"data.version: data.table {table} has no version 99"),
        (
            {"table": table, "timestamp": "2020-01-01"},
            "SourceNotFoundError",
            f"data.timestamp: data.table {table} has no version as old as 2020-01-01",
        ),
        ({"table": table, "timestamp": "2999-01-01"}, "SourceNotFoundError", "2999-01-01 is in the future"),
        ({"table": "seen", "version": 0}, "ConfigError", "data.version: data.table seen has no versions"),
        (
            {"path": path, "format": kind.format, "version": 99},
            "SourceNotFoundError",
            f"data.version: data.path {path} has no version 99",
        ),
    ]
    for data, error, says in cases:
        outcome = spark41.train(of_table(spark41, f"refused-{kind.format}", **data))
        assert (outcome.error, says in outcome.message) == (error, True), outcome.message
        assert outcome.verdict in (Verdict.REFUSED, Verdict.DATA_REFUSED)
        assert "\n" not in outcome.message.strip()
